package io.sparklog.arrow;

import java.util.HexFormat;

/** Prints, for each argument of bytes in hex, whether they are UTF-8, and their text in hex. */
final class Texts {
  private Texts() {}

  public static void main(String[] arguments) {
    HexFormat hex = HexFormat.of();
    for (String argument : arguments) {
      byte[] bytes = hex.parseHex(argument);
      int length = bytes.length - 2; // the first and the last byte are not of the text
      System.out.println(Utf8.isValid(bytes, 1, length) + " " + hex.formatHex(Utf8.text(bytes, 1, length).getBytes()));
    }
  }
}
