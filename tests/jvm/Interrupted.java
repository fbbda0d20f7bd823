package io.sparklog.planner;

import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.util.UninterruptibleThread;

/** Prints whether a thread of Spark is marked as interrupted again while another one is still interrupting it. */
final class Interrupted {
  private static final CountDownLatch WAITS = new CountDownLatch(1);
  private static final CountDownLatch RESTORES = new CountDownLatch(1);

  public static void main(String[] arguments) throws InterruptedException {
    Thread thread = new UninterruptibleThread(Interrupted::waitUntilInterrupted, "interrupted");
    thread.start();
    WAITS.await();
    thread.interrupt();
    thread.join();
  }

  private static void waitUntilInterrupted() {
    try (Held held = new Held()) {
      held.enter();
      try {
        WAITS.countDown();
        new CountDownLatch(1).await();
      } catch (InterruptedException error) {
        RESTORES.countDown();
        Interruption.restore();
        System.out.print(Thread.currentThread().isInterrupted());
      }
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Whoever interrupts a thread closes the channel it is in, and so can be held there. */
  private static final class Held extends AbstractInterruptibleChannel {
    void enter() {
      begin();
    }

    @Override
    protected void implCloseChannel() {
      try {
        RESTORES.await();
        Thread.sleep(100); // until the thread has tried it at least once
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }
}
