//! Clusters before their first lap, whatever model they are to serve: checks of rows, the prior that settings and data
//! give, seeds, and what a GPU does for them.

mod check;
mod design;
pub(crate) mod device;
mod prior;
pub mod seed;

pub use check::{check_columns, check_rows, remarks_on_values, scan_for, scan_part_for, working_element};
pub use design::{Design, Designed};
pub(crate) use prior::{is_constant, reach};
