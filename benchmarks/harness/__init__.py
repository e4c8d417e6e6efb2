"""The harness: what a study is, how it runs and resumes, how time and memory are measured, how results are reported."""
