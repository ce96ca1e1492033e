//! The order in which ranks are numbered along the axes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::axis::NUM_AXES;
use crate::{Axis, Error, Result};

/// A permutation of the axes, fastest varying first: ranks next to each other differ on the first axis.
///
/// The axes with the most traffic should come first, because neighbouring ranks share a node. Written as
/// `x,y,z,context,pipeline,data`, which is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AxisOrder([Axis; NUM_AXES]);

impl Default for AxisOrder {
    fn default() -> Self {
        AxisOrder([
            Axis::X,
            Axis::Y,
            Axis::Z,
            Axis::Context,
            Axis::Pipeline,
            Axis::Data,
        ])
    }
}

impl AxisOrder {
    /// The order that numbers ranks along `axes[0]` first.
    ///
    /// # Errors
    /// [`Error::NotAPermutation`] if an axis is missing, so that another one is repeated.
    pub fn new(axes: [Axis; NUM_AXES]) -> Result<Self> {
        Self::from_slice(&axes)
    }

    /// All 720 orders, for a search over them.
    pub fn all() -> Vec<AxisOrder> {
        let mut orders: Vec<Vec<Axis>> = vec![vec![]];
        for _ in 0..NUM_AXES {
            orders = orders.iter().flat_map(|order| extended(order)).collect();
        }
        orders
            .into_iter()
            .filter_map(|order| order.try_into().ok().map(AxisOrder))
            .collect()
    }

    /// The axes, fastest varying first.
    pub const fn axes(&self) -> &[Axis; NUM_AXES] {
        &self.0
    }

    /// The number of axes that vary faster than this one.
    pub fn position(&self, axis: Axis) -> usize {
        // A permutation holds every axis, so the count never exceeds the length.
        self.0.iter().take_while(|other| **other != axis).count()
    }

    /// The axes that vary faster than this one.
    pub fn inside(&self, axis: Axis) -> &[Axis] {
        &self.0[..self.position(axis)]
    }

    fn from_slice(axes: &[Axis]) -> Result<Self> {
        let count = |axis: &Axis| axes.iter().filter(|other| *other == axis).count();
        let missing: Vec<_> = Axis::ALL
            .into_iter()
            .filter(|axis| count(axis) == 0)
            .collect();
        let repeated: Vec<_> = Axis::ALL
            .into_iter()
            .filter(|axis| count(axis) > 1)
            .collect();
        match axes.try_into() {
            Ok(axes) if missing.is_empty() => Ok(AxisOrder(axes)),
            _ => Err(Error::NotAPermutation {
                found: axes.to_vec(),
                missing,
                repeated,
            }),
        }
    }
}

/// Every order that is one axis longer.
fn extended(order: &[Axis]) -> Vec<Vec<Axis>> {
    let unused = Axis::ALL.into_iter().filter(|axis| !order.contains(axis));
    unused.map(|axis| [order, &[axis]].concat()).collect()
}

impl fmt::Display for AxisOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.map(Axis::name).join(","))
    }
}

impl FromStr for AxisOrder {
    type Err = Error;

    /// Parses `x,y,z,context,pipeline,data`, in any spelling that [`Axis`] accepts. Context may be left out; it then
    /// follows Z.
    ///
    /// # Errors
    /// [`Error::UnknownAxis`]; [`Error::NotAPermutation`] if an axis is missing or repeated.
    fn from_str(text: &str) -> Result<Self> {
        let axes: Vec<Axis> = text.split(',').map(str::parse).collect::<Result<_>>()?;
        let z = axes.iter().position(|axis| *axis == Axis::Z);
        let completed = z.filter(|_| !axes.contains(&Axis::Context)).map(|z| {
            let mut all = axes.clone();
            all.insert(z + 1, Axis::Context);
            all
        });
        completed
            .and_then(|all| Self::from_slice(&all).ok())
            .map_or_else(|| Self::from_slice(&axes), Ok)
    }
}

impl TryFrom<String> for AxisOrder {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<AxisOrder> for String {
    fn from(order: AxisOrder) -> Self {
        order.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn there_are_720_orders_and_their_texts_round_trip() {
        let orders = AxisOrder::all();
        assert_eq!(orders.iter().collect::<HashSet<_>>().len(), 720);
        for order in orders {
            assert_eq!(order.to_string().parse(), Ok(order));
            assert_eq!(AxisOrder::new(*order.axes()), Ok(order));
            let json = serde_json::to_string(&order).unwrap();
            assert_eq!(json, format!("\"{order}\""));
            assert_eq!(serde_json::from_str::<AxisOrder>(&json).unwrap(), order);
        }
    }

    #[test]
    fn positions_follow_the_order() {
        let order: AxisOrder = "data,x,y,context,z,pipeline".parse().unwrap();
        assert_eq!(order.position(Axis::Data), 0);
        assert_eq!(order.inside(Axis::Y), [Axis::Data, Axis::X]);
        let named = "x,y,z,context,pipeline,data";
        assert_eq!(AxisOrder::default().to_string(), named);
        assert_eq!("x,y,z,pipeline,data".parse(), Ok(AxisOrder::default()));
    }

    #[test]
    fn what_is_no_permutation_is_refused() {
        assert_eq!(
            "x,y,z,x,data".parse::<AxisOrder>().unwrap_err().to_string(),
            "axis order: found `x,y,z,x,data`, needs x, y, z, context, data and pipeline once each; \
             missing: context,pipeline; repeated: x"
        );
        assert_eq!(
            "x,y,z,data".parse::<AxisOrder>().unwrap_err().to_string(),
            "axis order: found `x,y,z,data`, needs x, y, z, context, data and pipeline once each; \
             missing: context,pipeline"
        );
        assert!("x,y,z,data,pipeline,x".parse::<AxisOrder>().is_err());
        assert!(matches!(
            "x,y,z,data,pipes".parse::<AxisOrder>(),
            Err(Error::UnknownAxis { .. })
        ));
        assert!(AxisOrder::new([Axis::X; NUM_AXES]).is_err());
    }
}
