package io.sparklog.planner;

/**
 * Asks a planner, without Spark: `AskPlanner PYTHON LIMIT_S once|again`. It prints the answer or the error. The request
 * is sent to a planner that may be silent for LIMIT_S seconds, and that `again` replaces if it does not answer.
 */
final class AskPlanner {
  private AskPlanner() {}

  public static void main(String[] arguments) {
    Planner planner = new Planner(arguments[0], Integer.parseInt(arguments[1]));
    var request = Planner.JSON.createObjectNode().put("name", "close").put("reader", 1).put("long", "x".repeat(1 << 20));
    try {
      System.out.println(arguments[2].equals("once") ? planner.askOnce(request) : planner.ask(request));
    } catch (SparklogException error) {
      System.out.println(error.getMessage());
    }
    System.exit(0);
  }
}
