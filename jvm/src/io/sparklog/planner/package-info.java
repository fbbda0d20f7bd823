/**
 * The Python process that decides, and what its callers share: errors as Spark shows them, and the state of Spark's threads.
 * Read {@link io.sparklog.planner.Planner} first; its other side is {@code sparklog/spark/planner}.
 */
package io.sparklog.planner;
