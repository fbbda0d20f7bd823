package io.sparklog;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Work beside a task, in a thread of its own, that the task awaits later. */
final class Background {
  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "sparklog-background");
            thread.setDaemon(true);
            return thread;
          });

  private Background() {}

  static <T> CompletableFuture<T> begin(Callable<T> work) {
    CompletableFuture<T> coming = new CompletableFuture<>();
    THREADS.execute(
        () -> {
          try {
            coming.complete(work.call());
          } catch (Throwable error) { // whatever it is: the task waits for it
            coming.completeExceptionally(error);
          }
        });
    return coming;
  }

  /** The result of work that was begun. Throws IOException if it failed. */
  static <T> T await(CompletableFuture<T> coming) throws IOException {
    try {
      return coming.get();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException(error);
    } catch (ExecutionException error) {
      throw error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause());
    }
  }
}
