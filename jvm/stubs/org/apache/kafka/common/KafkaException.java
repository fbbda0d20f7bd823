package org.apache.kafka.common;

public class KafkaException extends RuntimeException {}
