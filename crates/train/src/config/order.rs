//! The order of axes: one that was written down, or the one that costs least on the nodes of the job.

use grid::AxisOrder;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Which axis varies fastest over positions. Written as `auto`, or as `x,y,z,context,pipeline,data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OrderChoice {
    /// The order that costs least on the nodes of the job; on one node the default order.
    #[default]
    Auto,
    /// This one.
    Fixed(AxisOrder),
}

impl OrderChoice {
    /// The order, as far as it is known without the nodes.
    pub fn or_default(self) -> AxisOrder {
        match self {
            OrderChoice::Auto => AxisOrder::default(),
            OrderChoice::Fixed(order) => order,
        }
    }
}

impl fmt::Display for OrderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderChoice::Auto => f.pad("auto"),
            OrderChoice::Fixed(order) => order.fmt(f),
        }
    }
}

impl FromStr for OrderChoice {
    type Err = grid::Error;

    /// Reads `auto` or an order.
    ///
    /// # Errors
    /// [`grid::Error::UnknownAxis`] or [`grid::Error::NotAPermutation`], as for an [`AxisOrder`].
    fn from_str(text: &str) -> Result<Self, grid::Error> {
        match text.trim() {
            "auto" => Ok(OrderChoice::Auto),
            order => order.parse().map(OrderChoice::Fixed),
        }
    }
}

impl TryFrom<String> for OrderChoice {
    type Error = grid::Error;

    fn try_from(text: String) -> Result<Self, grid::Error> {
        text.parse()
    }
}

impl From<OrderChoice> for String {
    fn from(order: OrderChoice) -> String {
        order.to_string()
    }
}

impl From<AxisOrder> for OrderChoice {
    fn from(order: AxisOrder) -> OrderChoice {
        OrderChoice::Fixed(order)
    }
}
