"""Studies that repeat the evidence of the paper, compare alternatives and measure large tables and kernels."""
