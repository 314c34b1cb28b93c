//! Continual learning that equals joint training.
