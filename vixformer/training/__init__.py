"""One loop, its optimisers and schedules, and checkpoints that survive anything."""
