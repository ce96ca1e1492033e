//! Errors of grids, orders, layouts and demands. Every message carries its numbers.

use crate::demands::Unmet;
use crate::{Axis, Coordinates, Degrees};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A mistake in a request about a grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A word is not an axis.
    #[error("axis: found `{found}`, needs one of x, y, z, context, data, pipeline{}", did_you_mean(.nearest))]
    UnknownAxis {
        /// The word.
        found: String,
        /// The nearest accepted spelling, if one is close.
        nearest: Option<&'static str>,
    },
    /// A text of degrees has an entry that is not `axis=degree`.
    #[error("grid `{text}`: found `{found}`, needs axis=degree, as in x=2,pipeline=4")]
    Entry {
        /// The entry.
        found: String,
        /// The full text.
        text: String,
    },
    /// A text of degrees names something that is not an axis.
    #[error("grid `{text}`: {unknown}")]
    EntryAxis {
        /// The word found in place of an axis.
        unknown: Box<Error>,
        /// The full text.
        text: String,
    },
    /// A text of degrees gives an axis something that is not a whole number of at least 1.
    #[error("grid `{text}`: found {axis}={found}, needs a whole number of at least 1")]
    EntryDegree {
        /// The axis.
        axis: Axis,
        /// The value that was given.
        found: String,
        /// The full text.
        text: String,
    },
    /// A text of degrees names an axis twice, perhaps under two spellings.
    #[error("grid `{text}`: found axis {axis} twice, as {first} and as {second}, needs it once")]
    EntryTwice {
        /// The axis.
        axis: Axis,
        /// The degree given first.
        first: usize,
        /// The degree given second.
        second: usize,
        /// The full text.
        text: String,
    },
    /// A degree is 0.
    #[error("grid {degrees}: found degree 0 on axis {axis}, needs at least 1")]
    ZeroDegree {
        /// The axis.
        axis: Axis,
        /// All degrees.
        degrees: Degrees,
    },
    /// The number of ranks does not fit a `usize`.
    #[error("grid {degrees}: the product of the degrees is above {}", usize::MAX)]
    TooLarge {
        /// All degrees.
        degrees: Degrees,
    },
    /// The degrees do not multiply to the number of ranks.
    #[error(
        "grid: found {num_ranks} ranks, needs {} = {product}{}",
        factors(.degrees),
        grids_of(.nearest, *.num_ranks)
    )]
    WorldSize {
        /// The requested degrees.
        degrees: Degrees,
        /// Their product.
        product: usize,
        /// The actual number of ranks.
        num_ranks: usize,
        /// Degrees close to the requested ones, with the right product, nearest first.
        nearest: Vec<Degrees>,
    },
    /// An order does not name every axis exactly once.
    #[error(
        "axis order: found `{}`, needs x, y, z, context, data and pipeline once each{}{}",
        names(.found), listed("; missing: ", .missing), listed("; repeated: ", .repeated)
    )]
    NotAPermutation {
        /// The axes in the given order.
        found: Vec<Axis>,
        /// The axes that are missing from it.
        missing: Vec<Axis>,
        /// The axes that occur in it more than once.
        repeated: Vec<Axis>,
    },
    /// A rank is not in the world.
    #[error("grid {degrees}: found rank {rank}, needs less than {world_size}")]
    RankOutOfRange {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        world_size: usize,
        /// All degrees.
        degrees: Degrees,
    },
    /// A coordinate is not below the degree of its axis.
    #[error("grid {degrees}: found coordinates {coordinates}, needs {axis} less than {}", .degrees.get(*.axis))]
    CoordinateOutOfRange {
        /// The first axis whose coordinate is too large.
        axis: Axis,
        /// The coordinates.
        coordinates: Coordinates,
        /// All degrees.
        degrees: Degrees,
    },
    /// A layout cuts by the same axis twice.
    #[error(
        "layout: found axis {axis} in dim {first_dim} and again in dim {second_dim}, needs at most one cut per axis"
    )]
    CutTwice {
        /// The axis.
        axis: Axis,
        /// The dim that it cuts first.
        first_dim: usize,
        /// The dim in which it occurs again (possibly the same one).
        second_dim: usize,
    },
    /// The text of a layout cannot be parsed.
    #[error(
        "layout `{text}`: found no brackets, needs dims between [ and ], as in [x z | y] or [- | x]"
    )]
    LayoutText {
        /// The full text.
        text: String,
    },
    /// A tensor has more or fewer dims than its layout.
    #[error("layout {layout}: found shape {shape:?} of {} dims, needs {num_dims}", .shape.len())]
    NumDims {
        /// The layout, written.
        layout: String,
        /// The number of dims that the layout has.
        num_dims: usize,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// A model, or its batch, cannot be cut by this grid.
    #[error("{}", misfit(.degrees, .unmet, .nearest))]
    Demands {
        /// The requested degrees.
        degrees: Degrees,
        /// Everything that does not fit.
        unmet: Vec<Unmet>,
        /// Degrees close to the requested ones that fit, nearest first.
        nearest: Vec<Degrees>,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

fn factors(degrees: &Degrees) -> String {
    let factors: Vec<_> = degrees
        .iter()
        .map(|(axis, degree)| format!("{degree} ({axis})"))
        .collect();
    factors.join(" x ")
}

fn names(axes: &[Axis]) -> String {
    axes.iter()
        .map(|axis| axis.name())
        .collect::<Vec<_>>()
        .join(",")
}

fn listed(before: &str, axes: &[Axis]) -> String {
    if axes.is_empty() {
        String::new()
    } else {
        format!("{before}{}", names(axes))
    }
}

fn grids_of(nearest: &[Degrees], num_ranks: usize) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    format!(
        "; the nearest grids of {num_ranks} ranks: {}",
        alternatives(nearest)
    )
}

fn alternatives(nearest: &[Degrees]) -> String {
    nearest
        .iter()
        .map(Degrees::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

fn misfit(degrees: &Degrees, unmet: &[Unmet], nearest: &[Degrees]) -> String {
    let list = unmet_list(unmet);
    // The model fits: the batch may change rather than the grid.
    if let [batch @ Unmet::Batch { batch: asked, .. }] = unmet {
        let grids = match nearest {
            [] => String::new(),
            _ => fitting(degrees, nearest),
        };
        let batches = batch.nearest_batches().map(|size| size.to_string());
        let batches = batches.collect::<Vec<_>>().join(" or ");
        return format!(
            "batch={asked} does not fit grid {degrees}: {list}; the nearest batches that fit: {batches}{grids}"
        );
    }
    format!(
        "grid {degrees} does not fit the model: {list}{}",
        fitting(degrees, nearest)
    )
}

fn unmet_list(unmet: &[Unmet]) -> String {
    unmet
        .iter()
        .map(Unmet::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn fitting(degrees: &Degrees, nearest: &[Degrees]) -> String {
    let Some(Ok(num_ranks)) = nearest.first().map(Degrees::world_size) else {
        return "; no grid with that many ranks or slightly fewer fits it".to_owned();
    };
    let alternatives = alternatives(nearest);
    if degrees.world_size() == Ok(num_ranks) {
        return format!("; the nearest grids of {num_ranks} ranks that fit: {alternatives}");
    }
    format!(
        "; no grid with that many ranks fits; the nearest grids of {num_ranks} ranks that do: {alternatives}"
    )
}
