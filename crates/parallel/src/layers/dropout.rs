//! Dropout whose draws belong to global elements, so that replicas agree and every grid drops the same
//! elements.

use super::DTensor;
use tensor::{
    Result, Var,
    ops::{self, Region},
};

impl DTensor {
    /// In training, drops elements with this probability and scales the others; `name` keys the draws.
    ///
    /// `rows_per_sequence` is the number of rows that one sequence (or sample) has.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a probability outside [0, 1).
    pub fn dropout(
        &self,
        name: &str,
        probability: f64,
        rows_per_sequence: usize,
    ) -> Result<DTensor> {
        let pass = self.pass();
        if probability == 0.0 || !pass.is_training() {
            return Ok(self.clone());
        }
        let key = pass.key(name);
        let first_held = self
            .spread()
            .map_or(0, |spread| spread.own(pass.context()).start);
        let region = Region {
            rows: self.held().num_rows(),
            columns: self.held().columns(),
            first_row: pass.rows().start * rows_per_sequence + first_held,
            first_column: self.first_feature(),
            global_columns: self.features(),
        };
        let out = ops::dropout(self.held(), probability, key, region)?;
        let var = Var::record_one("dropout", &[self.held_var()], out, false, move |d_out| {
            Ok(vec![Some(ops::dropout(&d_out, probability, key, region)?)])
        });
        Ok(self.like(var))
    }
}
