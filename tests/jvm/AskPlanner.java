package io.sparklog.planner;

/**
 * Asks a planner, without Spark: `AskPlanner PYTHON LIMIT_S once|again`. It prints the answer or the error. The request
 * is sent to a planner that may be silent for LIMIT_S seconds, and that `again` replaces if it does not answer. If PYTHON
 * is empty, it is the one that the environment names.
 */
final class AskPlanner {
  private AskPlanner() {}

  public static void main(String[] arguments) {
    String python = arguments[0].isEmpty() ? Planner.pythonCommand() : arguments[0];
    var request = Planner.JSON.createObjectNode().put("name", "close").put("reader", 1).put("long", "x".repeat(1 << 20));
    try {
      Planner planner = new Planner(python, Integer.parseInt(arguments[1]));
      System.out.println(arguments[2].equals("once") ? planner.askOnce(request) : planner.ask(request));
    } catch (SparklogException error) {
      System.out.println(error.getMessage());
    }
    System.exit(0);
  }
}
