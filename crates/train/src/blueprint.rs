//! An architecture made from a function, for a model that no configuration names.

use crate::{Architecture, ModelConfig, Result, batches::Values};
use grid::Demands;
use nn::Builder;
use parallel::Model;
use std::{any::Any, fmt, sync::Arc};

type Build = dyn Fn(&Builder) -> parallel::Result<Box<dyn Model>> + Send + Sync;

/// An architecture made from a function that builds the model, and the columns of its batches: what the planner
/// needs for your own model.
///
/// ```
/// # use fascicle_train as train;
/// use nn::{Builder, Linear};
/// use parallel::{Input, Model, Result, Wires, layers::Loss};
/// use train::blueprint::Blueprint;
///
/// struct Line(Linear);
///
/// impl Model for Line {
///     fn num_segments(&self) -> usize {
///         1
///     }
///     fn forward(&self, _: usize, input: &Input<'_>, _: Wires) -> Result<Wires> {
///         Ok(Wires::of("x", self.0.forward(&input.activation("features")?)?))
///     }
///     fn objective(&self, _: &Input<'_>, mut wires: Wires) -> Result<Loss> {
///         Loss::mean(&wires.take("x")?)
///     }
/// }
///
/// let line = Blueprint::new("line", |builder: &Builder| Ok(Line(builder.linear("line", 12, 4)?)))
///     .column("features", &[12], vec![0.0f32; 12]);
/// assert_eq!(train::Config::new(line.into()).work()?.num_parameters(), 12 * 4 + 4);
/// # Ok::<(), train::Error>(())
/// ```
#[derive(Clone)]
pub struct Blueprint {
    name: String,
    build: Arc<Build>,
    columns: Vec<(String, Vec<usize>, Values)>,
    demands: Demands,
}

impl Blueprint {
    /// The architecture with that name, whose models this function builds.
    pub fn new<M: Model + 'static>(
        name: &str,
        build: impl Fn(&Builder) -> parallel::Result<M> + Send + Sync + 'static,
    ) -> Blueprint {
        let boxed = move |builder: &Builder| Ok(Box::new(build(builder)?) as Box<dyn Model>);
        Blueprint {
            name: name.into(),
            build: Arc::new(boxed),
            columns: Vec::new(),
            demands: Demands::default(),
        }
    }

    /// Adds a column of its batches: its name, the shape of a row, and one row of values, of which only the
    /// type and number matter.
    pub fn column(mut self, name: &str, row_shape: &[usize], row: impl Into<Values>) -> Blueprint {
        self.columns
            .push((name.into(), row_shape.to_vec(), row.into()));
        self
    }

    /// Sets the demands of its sizes on a grid.
    pub fn demands(self, demands: Demands) -> Blueprint {
        Blueprint { demands, ..self }
    }
}

impl Architecture for Blueprint {
    fn family(&self) -> &str {
        &self.name
    }

    fn table(&self) -> Result<toml::Table> {
        let family = toml::Value::String(self.name.clone());
        Ok(toml::Table::from_iter([("family".to_owned(), family)]))
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn build(&self, builder: &Builder) -> parallel::Result<Box<dyn Model>> {
        (self.build)(builder)
    }

    fn columns(&self) -> Vec<(String, Vec<usize>, Values)> {
        self.columns.clone()
    }

    fn demands(&self) -> Demands {
        self.demands
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl From<Blueprint> for ModelConfig {
    fn from(blueprint: Blueprint) -> ModelConfig {
        ModelConfig::new(blueprint)
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blueprint({})", self.name)
    }
}
