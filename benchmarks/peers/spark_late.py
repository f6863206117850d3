"""Filter and extract the late acknowledgements of a folder of logs with plain PySpark."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
pattern = r"attempt (\d+) from task (\S+) of job (\S+) at (\S+)"
lines = spark.read.text(sys.argv[1])
late = lines.where("value LIKE '%Received late message for now expired checkpoint%'").selectExpr(
    *(f"regexp_extract(value, '{pattern}', {group})".replace("\\", "\\\\") for group in range(1, 5))
)
print(len(late.collect()))
