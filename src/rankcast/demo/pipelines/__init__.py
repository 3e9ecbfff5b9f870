"""Two real pipelines on local Spark, fed as they run: messages with places, and quotes."""
