"""Parallax tells Kafka operators when their replicas disagree."""
