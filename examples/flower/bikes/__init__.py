"""Bike rentals at three places, one exact model."""
