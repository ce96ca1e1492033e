//! A custom layer: an activation with its own kernels, forward and backward.

use fascicle::{
    prelude::*,
    tensor::ops::{CustomKernel, custom},
};
use std::sync::{Arc, LazyLock};

/// x / (1 + |x|), element by element.
static SOFTSIGN: LazyLock<Arc<CustomKernel>> = LazyLock::new(|| {
    let kernel = CustomKernel::new("softsign").on_host(|args| {
        let (x, y) = (args.read::<f64>(0)?, args.write::<f64>(1)?);
        x.iter().zip(y).for_each(|(x, y)| *y = x / (1.0 + x.abs()));
        Ok(())
    });
    Arc::new(kernel)
});

/// Its gradient, d_y / (1 + |x|)^2.
static SOFTSIGN_BACKWARD: LazyLock<Arc<CustomKernel>> = LazyLock::new(|| {
    let kernel = CustomKernel::new("softsign_backward").on_host(|args| {
        let (x, d_y) = (args.read::<f64>(0)?, args.read::<f64>(1)?);
        let d_x = args.write::<f64>(2)?;
        for ((x, d_y), d_x) in x.iter().zip(d_y).zip(d_x) {
            *d_x = d_y / (1.0 + x.abs()).powi(2);
        }
        Ok(())
    });
    Arc::new(kernel)
});

/// The activation, for a tensor of any layout, because it acts on each element separately.
pub fn softsign(x: &DTensor) -> Result<DTensor> {
    let input = x.tensor()?.clone();
    let like = |tensor: &Tensor| Tensor::empty(tensor.device(), tensor.dtype(), tensor.shape());
    let out = like(&input)?;
    custom(&SOFTSIGN).read(&input).write(&out).launch()?;
    let var = Var::record_one("softsign", &[x.var()?], out, false, move |d_out| {
        let d_x = like(&input)?;
        custom(&SOFTSIGN_BACKWARD)
            .read(&input)
            .read(&d_out)
            .write(&d_x)
            .launch()?;
        Ok(vec![Some(d_x)])
    });
    DTensor::new(x.pass(), var, x.features(), x.cut())
}
