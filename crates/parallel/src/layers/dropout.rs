//! Dropout whose draws belong to global elements, so that replicas agree and every grid drops the same
//! elements.

use super::DTensor;
use tensor::{
    Result, Tensor, Var,
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
        let num_rows = self.held().num_rows();
        let pieces = self.spread().map(|spread| spread.pieces(pass.context()));
        let pieces = pieces.unwrap_or_else(|| vec![(0, num_rows, 0)]);
        let (first_row, columns) = (pass.rows().start * rows_per_sequence, self.held().columns());
        let (first_column, global_columns) = (self.first_feature(), self.features());
        let dropped = move |x: &Tensor| {
            let rows = x.reshape(&[num_rows, columns])?;
            let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
            let into = out.reshape(&[num_rows, columns])?;
            for &(start, rows_of_piece, among_all) in &pieces {
                let region = Region {
                    rows: rows_of_piece,
                    columns,
                    first_row: first_row + among_all,
                    first_column,
                    global_columns,
                };
                let [x, out] = [&rows, &into].map(|all| all.rows(start, rows_of_piece));
                ops::dropout_into(&x?, probability, key, region, &out?)?;
            }
            Ok(out)
        };
        let out = dropped(self.held())?;
        let var = Var::record_one("dropout", &[self.held_var()], out, false, move |d_out| {
            Ok(vec![Some(dropped(&d_out)?)])
        });
        Ok(self.like(var))
    }
}
