"""Run, explain and grade distributed PyTorch programs on one machine."""
