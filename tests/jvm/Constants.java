package io.sparklog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.planner.Planner;
import java.lang.reflect.Field;

/** Prints constants by name as one object of JSON, bytes in base64: `Constants CLASS.NAME …`. */
final class Constants {
  private Constants() {}

  public static void main(String[] names) throws ReflectiveOperationException {
    ObjectNode values = Planner.JSON.createObjectNode();
    for (String name : names) {
      int dot = name.lastIndexOf('.');
      Field field = Class.forName("io.sparklog." + name.substring(0, dot)).getDeclaredField(name.substring(dot + 1));
      field.setAccessible(true);
      values.putPOJO(name, field.get(null));
    }
    System.out.println(values);
  }
}
