"""Everything about starting Spark, behind one door: `starter`."""
