"""What is around the robot in documents: objects of worlds, kept worlds, and what links carry."""
