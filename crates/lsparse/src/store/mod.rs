//! What is kept on disk: checkpoints of runs, and model files.

pub mod checkpoint;
pub mod model_file;
pub mod prints;
