//! The calls that a random program makes, by name.

use crate::world::{Step, World};
use fascicle_tensor::{
    Beyond, Carried, DType, Device, Error, MemoryKind, Paged, ReduceOp, Result, SavedSegment,
    Stream, Tensor, UnevenShards, Var,
    autograd::backward,
    ops::{
        self, BinaryOp, CustomKernel, Region, Transpose, UnaryOp,
        attention::{AttentionDropout, AttentionShape, Saved},
        coded::CodedUpdate,
        factored::{self, FactoredMatrix, FactoredPiece, FactoredStep, LinePiece, Lines, Means},
        loss::VocabularyShard,
        norm::{NormKind, NormShape},
        optimiser::{AdamW, Lion, Update},
        pages::{PageShape, PagedShape, Pages},
    },
    trace,
};
use hal::{
    Counts,
    codes::BlockPlace,
    kernel::LinePlace,
    quantised::{Quantised, QuantisedPart},
    random::Key,
};
use offload::Place;
use std::sync::Arc;

type Call = fn(&mut World, &Step) -> Result<()>;

/// All calls.
pub const ALL: &[(&str, Call)] = &[
    ("make", make),
    ("make", make),
    ("fill", |w, s| w.tensor(s.tensors[0]).fill(s.numbers[0])),
    ("upload", upload),
    ("to_vec", |w, s| {
        w.tensor(s.tensors[0]).to_vec::<f32>().map(drop)
    }),
    ("download", |w, s| {
        let tensor = w.tensor(s.tensors[0]);
        let own = tensor.num_elements() * tensor.dtype().bytes();
        tensor.download(&mut vec![0; own + s.sizes[0] % 2])
    }),
    ("to_f64", |w, s| w.tensor(s.tensors[0]).to_f64().map(drop)),
    ("item", |w, s| w.tensor(s.tensors[0]).item().map(drop)),
    ("reshape", |w, s| {
        keep(w, |w| w.tensor(s.tensors[0]).reshape(s.shape()))
    }),
    ("rows", |w, s| {
        keep(w, |w| w.tensor(s.tensors[0]).rows(s.sizes[0], s.sizes[1]))
    }),
    ("forget", forget),
    ("from_vec", |w, s| {
        let elements = vec![s.numbers[0] as f32; s.small(0) + 10 * s.small(1)];
        let count = if s.fits() { elements.len() } else { s.sizes[2] };
        keep(w, |w| {
            Tensor::from_vec(w.device(s.choices[1]), &[count], elements)
        })
    }),
    ("into_vec", |w, s| {
        // No tensor without elements is left behind, however many views it had.
        let count = w.tensors.len().max(1);
        let taken = w.tensors.swap_remove(usize::from(s.tensors[0]) % count);
        taken.into_vec::<f32>().map(drop)
    }),
    ("lend_mut", lend_mut),
    ("lend", lend),
    ("gone", |w, _| {
        let gone = w.gone.clone();
        let gone = gone.ok_or_else(|| Error::invalid("gone", "nothing", "something"))?;
        assert!(gone.fill(1.0).is_err() && gone.to_f64().is_err());
        keep(w, |w| ops::binary(BinaryOp::Add, &gone, &w.tensor(0)))
    }),
    ("binary_row_in_place", |w, s| {
        let (x, row) = matrix_and_row(w, s)?;
        ops::binary_row_in_place(binary(s), &x, &row)
    }),
    ("cast", |w, s| {
        keep(w, |w| ops::cast(&w.tensor(s.tensors[0]), s.dtype()))
    }),
    ("cast_into", |w, s| {
        ops::cast_into(&w.tensor(s.tensors[0]), &w.tensor(s.tensors[1]))
    }),
    ("axpby", |w, s| {
        let [alpha, beta, _] = s.numbers;
        ops::axpby(
            alpha,
            &w.tensor(s.tensors[0]),
            beta,
            &w.tensor(s.tensors[1]),
        )
    }),
    ("binary", |w, s| {
        keep(w, |w| {
            ops::binary(binary(s), &w.tensor(s.tensors[0]), &w.tensor(s.tensors[1]))
        })
    }),
    ("binary_into", |w, s| {
        let [a, b, out] = [0, 1, 2].map(|index| w.tensor(s.tensors[index]));
        ops::binary_into(binary(s), &a, &b, &out)
    }),
    ("unary", |w, s| {
        keep(w, |w| ops::unary(unary(s), &w.tensor(s.tensors[0])))
    }),
    ("unary_into", |w, s| {
        ops::unary_into(unary(s), &w.tensor(s.tensors[0]), &w.tensor(s.tensors[1]))
    }),
    ("unary_backward", |w, s| {
        keep(w, |w| {
            ops::unary_backward(unary(s), &w.tensor(s.tensors[0]), w.tensor(s.tensors[1]))
        })
    }),
    ("swiglu", |w, s| {
        keep(w, |w| {
            ops::swiglu(&w.tensor(s.tensors[0]), &w.tensor(s.tensors[1]))
        })
    }),
    ("swiglu_backward", |w, s| {
        let [gate, up, d_out] = [0, 1, 2].map(|index| w.tensor(s.tensors[index]));
        ops::swiglu_backward(&gate, &up, &d_out).map(drop)
    }),
    ("add_bias", |w, s| {
        let (x, bias) = matrix_and_row(w, s)?;
        ops::add_bias(&x, &bias)
    }),
    ("column_sum", |w, s| {
        let (x, out) = matrix_and_row(w, s)?;
        ops::column_sum_into(&x, &out, (s.small(2) % 2) as f64)
    }),
    ("dropout", dropout),
    ("rope", |w, s| {
        keep(w, |w| {
            ops::rope(
                &w.tensor(s.tensors[0]),
                s.sizes[0],
                s.sizes[2],
                s.sizes[1],
                s.numbers[0],
                s.fits(),
            )
        })
    }),
    ("columns", |w, s| {
        keep(w, |w| {
            ops::columns(&w.tensor(s.tensors[0]), s.sizes[0], s.sizes[1])
        })
    }),
    ("columns_into", |w, s| {
        let x = w.tensor(s.tensors[0]);
        let out = match s.fits() {
            true => Tensor::zeros(x.device(), x.dtype(), &[x.num_rows(), s.sizes[1].min(9)])?,
            false => w.tensor(s.tensors[1]),
        };
        ops::columns_into(&x, s.sizes[0], s.sizes[1], &out)
    }),
    ("set_columns", |w, s| {
        let (x, part) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
        let part = match s.fits() {
            true => Tensor::zeros(x.device(), x.dtype(), &[x.num_rows(), s.small(1) % 3])?,
            false => part,
        };
        ops::set_columns(&x, s.small(0) % 3, &part)
    }),
    ("row_sum", |w, s| {
        keep(w, |w| ops::row_sum(&w.tensor(s.tensors[0])))
    }),
    ("softmax", |w, s| {
        keep(w, |w| ops::softmax(&w.tensor(s.tensors[0]), s.fits()))
    }),
    ("softmax_backward", |w, s| {
        keep(w, |w| {
            let (out, d_out) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
            ops::softmax_backward(&out, &d_out, s.fits())
        })
    }),
    ("documents", |w, s| {
        keep(w, |w| {
            let ids = match s.fits() {
                true => typed(w, s, DType::U32, s.shape())?,
                false => w.tensor(s.tensors[0]),
            };
            let end = s.small(0) as u32;
            match s.small(1) % 2 {
                0 => ops::document_starts(&ids, end),
                _ => ops::places_in_documents(&ids, end),
            }
        })
    }),
    ("dequantise", |w, s| {
        let part = part(w, s);
        let out = match s.fits() {
            true => Tensor::empty(&w.devices[0], DType::F32, &[part.rows, part.columns])?,
            false => w.tensor(s.tensors[1]),
        };
        ops::quantised::dequantise(&stored(w, s, part)?, part, &out)
    }),
    ("quantised_matmul", |w, s| {
        let part = part(w, s);
        let a = w.tensor(s.tensors[0]);
        let out = match s.fits() {
            true => Tensor::empty(a.device(), a.dtype(), &[a.num_rows(), part.columns])?,
            false => w.tensor(s.tensors[1]),
        };
        let leaf = if s.fits() { 2 } else { s.sizes[4] };
        ops::quantised::quantised_matmul_into(&a, (&stored(w, s, part)?, part), &out, leaf)
    }),
    ("select_rows", |w, s| {
        keep(w, |w| {
            let like = w.tensor(s.tensors[0]);
            let mask = typed(w, s, DType::U32, &[like.num_rows()])?;
            let side = w.tensor(s.tensors[1]);
            let side = if s.fits() { like.clone() } else { side };
            ops::select_rows(&mask, Some(&side), None, &like)
        })
    }),
    ("permute", |w, s| {
        keep(w, |w| {
            let x = w.tensor(s.tensors[0]);
            let mut order: Vec<usize> = (0..x.shape().len()).rev().collect();
            order[..].rotate_left(s.small(0).min(x.shape().len()));
            let order = if s.fits() { &order } else { s.shape() };
            ops::permute(&x, order)
        })
    }),
    ("expand", |w, s| {
        keep(w, |w| {
            let x = w.tensor(s.tensors[0]);
            let column = [x.shape(), &[1]].concat();
            let more = [x.shape(), &[s.small(0)]].concat();
            ops::expand(
                &x.reshape(&column)?,
                if s.fits() { &more } else { s.shape() },
            )
        })
    }),
    ("slice", |w, s| {
        keep(w, |w| {
            let [dim, start, count, ..] = s.sizes;
            ops::slice(&w.tensor(s.tensors[0]), dim, start, count)
        })
    }),
    ("concat", |w, s| {
        keep(w, |w| {
            let (a, b) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
            let b = if s.fits() { a.clone() } else { b };
            ops::concat(&[&a, &b], s.sizes[0])
        })
    }),
    ("one_hot", |w, s| {
        keep(w, |w| ops::one_hot(&ids(w, s)?, s.sizes[0], s.dtype()))
    }),
    ("copy", |w, s| {
        ops::copy(&w.tensor(s.tensors[0]), &w.tensor(s.tensors[1]))
    }),
    ("matmul", |w, s| {
        let (a, b) = factors(w, s)?;
        keep(w, |_| ops::matmul(&a, &b, transpose(s)))
    }),
    ("matmul_into", |w, s| {
        let (a, b) = factors(w, s)?;
        let [alpha, beta, _] = s.numbers;
        let out = match s.fits() {
            true => ops::matmul(&a, &b, transpose(s))?,
            false => w.tensor(s.tensors[2]),
        };
        ops::matmul_into(&a, &b, transpose(s), &out, alpha, beta)
    }),
    ("matmul_batched", |w, s| {
        keep(w, |w| {
            ops::matmul_batched(
                &w.tensor(s.tensors[0]),
                &w.tensor(s.tensors[1]),
                transpose(s),
            )
        })
    }),
    ("matmul_bias", |w, s| {
        let (a, b) = factors(w, s)?;
        let bias = match s.fits() {
            true => Tensor::full(a.device(), a.dtype(), &[b.columns()], 0.5)?,
            false => w.tensor(s.tensors[2]),
        };
        let by = if s.fits() {
            Transpose::None
        } else {
            transpose(s)
        };
        let b = if s.fits() {
            b.reshape(&[a.columns(), bias.num_elements()])?
        } else {
            b
        };
        keep(w, |_| ops::matmul_bias(&a, &b, by, &bias))
    }),
    ("matmul_gelu", |w, s| {
        let (a, b) = factors(w, s)?;
        let bias = w.tensor(s.tensors[2]);
        let bias = Some(&bias).filter(|_| !s.fits());
        ops::matmul_gelu(&a, &b, transpose(s), bias).map(drop)
    }),
    ("embedding", |w, s| {
        keep(w, |w| {
            ops::embedding(&w.tensor(s.tensors[0]), &ids(w, s)?, s.sizes[2])
        })
    }),
    ("embedding_backward", |w, s| {
        let (d_out, ids) = (w.tensor(s.tensors[0]), ids(w, s)?);
        let columns = s.small(1);
        let d_table = typed(w, s, d_out.dtype().accumulator(), &[s.small(2), columns])?;
        let d_out = match s.fits() {
            true => Tensor::zeros(
                d_out.device(),
                d_out.dtype(),
                &[ids.num_elements(), columns],
            )?,
            false => d_out,
        };
        ops::embedding_backward(&d_out, &ids, &d_table, s.sizes[2])
    }),
    ("norm", norm),
    ("norm_backward", norm_backward),
    ("attention", attention),
    ("pages", pages),
    ("rope_at", |w, s| {
        let x = w.tensor(s.tensors[0]);
        let places = numbers(w, s, &[x.num_rows()])?;
        let head = if s.fits() { x.columns() } else { s.sizes[1] };
        keep(w, |_| ops::rope_at(&x, &places, head, s.numbers[0]))
    }),
    ("attention_join", |w, s| {
        let mut sizes = [s.sizes[0], s.sizes[1], s.sizes[2]];
        let mut all = s.tensors.map(|index| w.tensor(index));
        if s.fits() {
            sizes = [s.small(0), s.small(1), s.small(3)];
            let rows = s.small(2) * sizes[0];
            let values = [rows, sizes[1] * sizes[2]];
            let dtypes = [s.dtype().accumulator(), s.dtype()];
            for (pair, dtype) in dtypes.into_iter().enumerate() {
                all[2 * pair] = typed(w, s, dtype, &values)?;
                all[2 * pair + 1] = typed(w, s, dtypes[0], &[rows, sizes[1]])?;
            }
        }
        let [queries, heads, head_size] = sizes;
        let shape = AttentionShape::causal(s.small(2), queries, [heads, heads, head_size]);
        let [out, sums, block, of_block, ..] = all;
        keep(w, |_| {
            ops::attention_join(shape, (&out, &sums), (&block, &of_block))
        })
    }),
    ("loss", loss),
    ("sum_squares", |w, s| {
        let out = typed(w, s, DType::F64, &[1])?;
        let tensors: Vec<Tensor> = s.tensors.iter().map(|index| w.tensor(*index)).collect();
        let some = &tensors[..s.small(0).min(6)];
        ops::optimiser::sum_squares(&some.iter().collect::<Vec<_>>(), &out)
    }),
    ("exact_squares", |w, s| {
        let largest = typed(w, s, DType::F64, &[1])?;
        let sums = typed(w, s, DType::F64, &[3])?;
        let tensors: Vec<Tensor> = s.tensors.iter().map(|index| w.tensor(*index)).collect();
        let some: Vec<&Tensor> = tensors[..s.small(0).min(6)].iter().collect();
        ops::optimiser::largest(&some, &largest)?;
        ops::optimiser::exact_squares(&some, &largest, &sums)?;
        keep(w, |_| ops::optimiser::exact_total(&largest, &sums))
    }),
    ("adamw", |w, s| optimise(w, s, "adamw")),
    ("sgd", |w, s| optimise(w, s, "sgd")),
    ("lion", |w, s| optimise(w, s, "lion")),
    ("momentum", |w, s| optimise(w, s, "momentum")),
    ("coded", coded),
    ("factored", factored),
    ("unit_norm", |w, s| {
        let (squares, x) = (typed(w, s, DType::F64, &[1])?, w.tensor(s.tensors[0]));
        let out = match s.fits() {
            true => Tensor::zeros(x.device(), x.dtype(), x.shape())?,
            false => w.tensor(s.tensors[1]),
        };
        ops::optimiser::unit_norm(&x, &squares, s.numbers[0], &out)
    }),
    ("custom", custom),
    ("var", var),
    ("backward", |w, s| {
        let (var, gradient) = (w.var(s.tensors[0]), w.tensor(s.tensors[1]));
        let gradient = match s.fits() {
            true => Tensor::full(
                var.tensor().device(),
                var.tensor().dtype(),
                var.tensor().shape(),
                1.0,
            )?,
            false => gradient,
        };
        backward(vec![(var, gradient)])
    }),
    ("record_event", |w, s| {
        let event = w.stream(s.choices[0]).record()?;
        w.events.push(event);
        Ok(())
    }),
    ("wait", |w, s| {
        let event = &w.events[usize::from(s.tensors[0]) % w.events.len()];
        w.stream(s.choices[0]).wait(event)
    }),
    ("event", |w, s| {
        let event = &w.events[usize::from(s.tensors[0]) % w.events.len()];
        event.is_complete()?;
        event.synchronize()?;
        event.time_us().map(drop)
    }),
    ("synchronize", |w, s| w.stream(s.choices[0]).synchronize()),
    ("all_reduce", |w, s| {
        let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg]
            [usize::from(s.choices[1]) % 4];
        w.group(s.choices[2])
            .all_reduce(w.stream(s.choices[0]), &w.tensor(s.tensors[0]), op)
    }),
    ("scatters", |w, s| parts(w, s, true)),
    ("gathers", |w, s| parts(w, s, false)),
    ("broadcast", |w, s| {
        let root = usize::from(s.small(0) == 9);
        w.group(s.choices[2])
            .broadcast(w.stream(s.choices[0]), &w.tensor(s.tensors[0]), root)
    }),
    ("all_to_all", |w, s| {
        let (send, recv) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
        w.group(s.choices[2])
            .all_to_all(w.stream(s.choices[0]), &send, &recv)
    }),
    ("send_recv", |w, s| {
        let (send, recv) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
        let recv = match s.fits() {
            true => Tensor::zeros(send.device(), send.dtype(), send.shape())?,
            false => recv,
        };
        // A message of mismatched length would end the group, which the rest of the program needs.
        if send.num_elements() != recv.num_elements() || send.dtype() != recv.dtype() {
            return Err(Error::invalid(
                "send_recv",
                "tensors that differ",
                "equal ones",
            ));
        }
        w.group(s.choices[2])
            .send_recv(w.stream(s.choices[0]), (&send, 0), (&recv, 0))
    }),
    ("barrier", |w, s| {
        w.group(s.choices[2]).barrier(w.stream(s.choices[0]))
    }),
    ("record", |w, s| {
        let x = w.tensor(s.tensors[0]);
        w.device(s.choices[0]).record(|| x.fill(1.0)).map(drop)
    }),
    ("saved", |w, s| {
        let device = w.device(s.choices[0]).clone();
        let links = [0, 1].map(|link| w.stream(s.choices[link]).clone());
        let room = (&Place::Host, s.small(0));
        let beyond = Beyond::new(&device, ("activations", "a test"), room, links)?;
        let saved = SavedSegment::after(None, Some(&beyond));
        let (x, other) = (w.tensor(s.tensors[0]), w.tensor(s.tensors[1]));
        let made = saved.collect(&device, || make(w, s));
        let carried = saved.close(Carried::of([&x, &other]), [&other]);
        saved.leave()?;
        saved.close(carried, []);
        made
    }),
    ("paged", |w, s| {
        let device = w.device(s.choices[0]).clone();
        let links = [0, 1].map(|link| w.stream(s.choices[link]).clone());
        let room = (&Place::Host, s.small(0));
        let beyond = Beyond::new(&device, ("weights", "a test"), room, links)?;
        let x = w.tensor(s.tensors[0]);
        let y = match s.fits() {
            true => Tensor::zeros(x.device(), x.dtype(), x.shape())?,
            false => w.tensor(s.tensors[1]),
        };
        let [one, other] = [&x, &y].map(|tensor| Paged::zeros(tensor, &beyond));
        x.fill(s.numbers[0])?;
        one.leave()?;
        ops::copy(&x, &y)?;
        let left = [&one, &other].map(Paged::leave);
        other.forget();
        left.into_iter().collect::<Result<()>>()?;
        match s.small(1) % 2 {
            // Its tensors outlive it.
            0 => Ok(()),
            _ => one.fetch().and(one.arrive()),
        }
    }),
    ("trace", |w, s| {
        let device = w.device(s.choices[0]).clone();
        trace::start(&device);
        w.tensor(s.tensors[0]).fill(s.numbers[0])?;
        trace::finish(&device).map(drop)
    }),
];

fn keep(world: &mut World, call: impl FnOnce(&World) -> Result<Tensor>) -> Result<()> {
    let made = call(world)?;
    world.tensors.insert(0, made);
    Ok(())
}

fn make(world: &mut World, step: &Step) -> Result<()> {
    let device = world.device(step.choices[2]).clone();
    let kind = MemoryKind::ALL[step.small(4) % MemoryKind::ALL.len()];
    keep(world, |_| {
        device.allocating(kind, || match step.small(3) {
            0..3 => Tensor::empty(&device, step.dtype(), step.shape()),
            3..6 => Tensor::full(&device, step.dtype(), step.shape(), step.numbers[0]),
            6 => Tensor::from_slice(&device, step.shape(), &[1.0f32; 6]),
            7 => Tensor::from_slice(&device, step.shape(), &[1u32; 8]),
            _ => Tensor::from_f64(&device, step.dtype(), &[2, 2], &[0.5; 4]),
        })
    })
}

fn upload(world: &mut World, step: &Step) -> Result<()> {
    let tensor = world.tensor(step.tensors[0]);
    if step.fits() {
        tensor.upload_f64(&vec![step.numbers[0]; tensor.num_elements()])
    } else {
        tensor.upload(&vec![1u32; step.small(0)])
    }
}

fn forget(world: &mut World, step: &Step) -> Result<()> {
    if world.tensors.len() > 4 {
        let index = usize::from(step.tensors[0]) % world.tensors.len();
        world.tensors.remove(index);
    }
    Ok(())
}

/// A new tensor of that shape, or any existing one.
fn typed(world: &World, step: &Step, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    match step.fits() {
        true => Tensor::full(&world.devices[0], dtype, shape, 0.25),
        false => Ok(world.tensor(step.tensors[5])),
    }
}

// Some u32, of any values.
fn numbers(world: &World, step: &Step, shape: &[usize]) -> Result<Tensor> {
    match step.fits() {
        true => {
            let count: usize = shape.iter().product();
            let small = (0..count).map(|index| (step.sizes[index % 4] % 200) as u32);
            let all: Vec<u32> = small.collect();
            Tensor::from_slice(&world.devices[0], shape, &all)
        }
        false => Ok(world.tensor(step.tensors[5])),
    }
}

// Pages that are written, read, copied and attended to, by slots, tables and lengths of any values.
fn pages(world: &mut World, step: &Step) -> Result<()> {
    let shape = match step.fits() {
        true => PageShape {
            pages: step.small(0),
            kv_heads: step.small(1).clamp(1, 2),
            head_size: step.small(2).clamp(1, 3),
        },
        false => PageShape {
            pages: step.small(0),
            kv_heads: step.sizes[1].min(9),
            head_size: step.sizes[2].min(9),
        },
    };
    let dtype = step.dtype();
    let own = Pages::new(&world.devices[0], dtype, shape)?;
    let (tokens, width) = (step.small(3), shape.width());
    let slots = numbers(world, step, &[tokens])?;
    let rows = |world: &World| typed(world, step, dtype, &[tokens, width]);
    let stored = own.store(&slots, &rows(world)?, &rows(world)?);
    let copied = own.copy_to(
        step.small(0) % 3,
        step.small(1) % 3,
        &own,
        step.small(2) % 3,
    );
    let loaded = own.load(&slots);
    let [sequences, queries, table_pages] = [step.small(1), step.small(2), step.small(0).max(1)];
    let group = if step.fits() { 2 } else { step.small(4) };
    let paged = PagedShape {
        sequences,
        queries,
        table_pages,
        heads: shape.kv_heads * group,
        pages: shape,
        window: step.fits().then_some(step.small(3)),
        scale: 1.0,
        score_cap: None,
    };
    let q = typed(
        world,
        step,
        dtype,
        &[sequences * queries, paged.heads * shape.head_size],
    )?;
    let table = numbers(world, step, &[sequences, table_pages])?;
    let held = numbers(world, step, &[sequences, 2])?;
    let attended = keep(world, |_| own.attention(paged, &q, (&table, &held), None));
    stored.and(copied).and(loaded.map(drop)).and(attended)
}

// A part of a matrix whose rows meet the columns of a tensor, or of any sizes.
fn part(world: &World, step: &Step) -> QuantisedPart {
    let [rows, columns, first_column, ..] = step.sizes;
    let format = Quantised::ALL[step.small(0) % 2];
    match step.fits() {
        true => QuantisedPart {
            format,
            rows: world.tensor(step.tensors[0]).columns(),
            columns: step.small(1),
            first_column: step.small(2),
        },
        false => QuantisedPart {
            format,
            rows,
            columns,
            first_column,
        },
    }
}

fn stored(world: &World, step: &Step, part: QuantisedPart) -> Result<Tensor> {
    match step.fits() {
        true => Tensor::full(&world.devices[0], DType::U8, &[part.bytes()], 1.0),
        false => Ok(world.tensor(step.tensors[5])),
    }
}

fn matrix_and_row(world: &World, step: &Step) -> Result<(Tensor, Tensor)> {
    let x = world.tensor(step.tensors[0]);
    let row = typed(world, step, x.dtype(), &[x.columns()])?;
    Ok((x, row))
}

fn factors(world: &World, step: &Step) -> Result<(Tensor, Tensor)> {
    let a = world.tensor(step.tensors[0]);
    if !step.fits() {
        return Ok((a, world.tensor(step.tensors[1])));
    }
    let n = step.small(1);
    let shape = match transpose(step) {
        Transpose::None => [a.columns(), n],
        Transpose::First => [a.num_rows(), n],
        Transpose::Second => [n, a.columns()],
    };
    let b = Tensor::full(a.device(), a.dtype(), &shape, 0.5)?;
    Ok((a, b))
}

fn ids(world: &World, step: &Step) -> Result<Tensor> {
    typed(world, step, DType::U32, &[step.small(0)])
}

fn binary(step: &Step) -> BinaryOp {
    [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div][step.small(4) % 4]
}

fn unary(step: &Step) -> UnaryOp {
    UnaryOp::ALL[step.small(4) % UnaryOp::ALL.len()]
}

fn transpose(step: &Step) -> Transpose {
    [Transpose::None, Transpose::First, Transpose::Second][usize::from(step.choices[1]) % 3]
}

fn dropout(world: &mut World, step: &Step) -> Result<()> {
    let x = world.tensor(step.tensors[0]);
    let [rows, columns, first_row, first_column, global_columns] = step.sizes;
    let region = match step.fits() {
        true => Region {
            rows: x.num_rows(),
            columns: x.columns(),
            first_row,
            first_column: step.small(3),
            global_columns: x.columns() + step.small(3),
        },
        false => Region {
            rows,
            columns,
            first_row,
            first_column,
            global_columns,
        },
    };
    keep(world, |_| {
        ops::dropout(&x, step.numbers[0], Key::new(1, "test", 2), region)
    })
}

fn norm_shape(x: &Tensor, step: &Step) -> NormShape {
    let kind = NormKind::ALL[step.small(4) % NormKind::ALL.len()];
    match step.fits() {
        true => ops::norm::shape(kind, x, x.columns(), step.numbers[0]),
        false => NormShape {
            kind,
            rows: step.sizes[0],
            columns: step.sizes[1],
            global_columns: step.sizes[2],
            epsilon: step.numbers[0],
        },
    }
}

fn norm(world: &mut World, step: &Step) -> Result<()> {
    let x = world.tensor(step.tensors[0]);
    let shape = norm_shape(&x, step);
    let moments = match step.small(3) {
        0..3 => {
            let widths = match step.fits() {
                true => vec![shape.global_columns],
                false => step.sizes.to_vec(),
            };
            ops::norm::combine(shape, &world.tensor(step.tensors[1]), &widths)?
        }
        3 => world.tensor(step.tensors[2]),
        _ => ops::norm::moments(shape, &x)?,
    };
    let gain = typed(world, step, x.dtype(), &[x.columns()])?;
    let bias = (step.small(2) > 4).then_some(&gain);
    if step.small(1) > 4 {
        return keep(world, |_| {
            let (out, _) = ops::norm::forward(shape, &x, &gain, bias)?;
            Ok(out)
        });
    }
    keep(world, |_| {
        ops::norm::normalize(shape, &x, &moments, &gain, bias)
    })
}

fn norm_backward(world: &mut World, step: &Step) -> Result<()> {
    let (x, d_out) = (world.tensor(step.tensors[0]), world.tensor(step.tensors[1]));
    let shape = norm_shape(&x, step);
    let d_out = if step.fits() { x.clone() } else { d_out };
    let moments = match step.small(3) {
        0 => world.tensor(step.tensors[2]),
        _ => ops::norm::moments(shape, &x)?,
    };
    let row = |dtype| typed(world, step, dtype, &[x.columns()]);
    let gain = row(x.dtype())?;
    let (d_gain, d_bias) = (row(x.dtype().accumulator())?, row(x.dtype().accumulator())?);
    let d_bias = (step.small(2) > 4).then_some(&d_bias);
    let beta = (step.small(2) % 2) as f64;
    if step.small(1) > 4 {
        let d_x = Tensor::empty(x.device(), x.dtype(), x.shape())?;
        let addend = world.tensor(step.tensors[2]);
        let gradients = ops::norm::Gradients {
            d_x: &d_x,
            d_gain: &d_gain,
            d_bias,
            addend: (step.small(4) > 4).then_some(&addend),
        };
        ops::norm::backward(shape, &x, &moments, &gain, &d_out, gradients, beta)?;
        return keep(world, |_| Ok(d_x));
    }
    let sums = ops::norm::sums(shape, &x, &moments, &gain, &d_out, (&d_gain, d_bias), beta)?;
    keep(world, |_| {
        ops::norm::normalize_backward(shape, &x, &moments, &gain, &d_out, &sums)
    })
}

fn attention(world: &mut World, step: &Step) -> Result<()> {
    let [sequences, queries, heads, kv_heads, head_size] = step.sizes;
    // Sizes for the rest, of the same kinds, in any combination.
    let [window, keys, first_query, first_key] =
        [1, 2, 3, 4].map(|by| step.sizes[(usize::from(step.tensors[0]) + by) % 5]);
    let dropout = (step.small(0) > 5).then_some(AttentionDropout {
        probability: step.numbers[0],
        key: Key::new(3, "test", 4),
        first_sequence: sequences,
        first_head: step.small(2),
        global_heads: heads,
        sequence: keys.wrapping_add(first_key),
    });
    let mut shape = AttentionShape {
        sequences,
        queries,
        keys,
        first_query,
        first_key,
        window: (step.small(3) > 3).then_some(window),
        heads,
        kv_heads,
        head_size,
        scale: step.numbers[1],
        score_cap: (step.small(4) > 3).then_some(step.numbers[0]),
        dropout,
    };
    if !step.fits() {
        let [q, k, v, out, log_sum_exp, d_out] = step.tensors.map(|index| world.tensor(index));
        let documents = (step.small(1) > 3).then(|| d_out.clone());
        ops::attention(shape, &q, &k, &v, documents.as_ref())?;
        let saved = Saved {
            q,
            k,
            v,
            out,
            log_sum_exp,
            documents,
        };
        return ops::attention::attention_backward(shape, &saved, &d_out).map(drop);
    }
    let kv_heads = step.small(3).max(1);
    shape.sequences = step.small(0);
    shape.queries = step.small(1);
    shape.keys = step.small(3);
    shape.window = shape.window.map(|window| window % 7 + 1);
    (shape.kv_heads, shape.heads) = (kv_heads, kv_heads * (step.small(2) % 3));
    shape.head_size = step.small(4);
    if let Some(dropout) = &mut shape.dropout {
        dropout.global_heads = shape.heads + dropout.first_head;
        shape.first_key = step.small(0);
        shape.first_query = step.small(4);
        let end = shape.keys.max(shape.first_query + shape.queries);
        dropout.sequence = shape.first_key + end;
    }
    let rows = |rows: usize, heads: usize| {
        let size = [shape.sequences * rows, heads * shape.head_size];
        Tensor::full(&world.devices[0], step.dtype(), &size, 0.5)
    };
    let q = rows(shape.queries, shape.heads)?;
    let (k, v) = (rows(shape.keys, kv_heads)?, rows(shape.keys, kv_heads)?);
    // Any places at all: these may decrease, and lie beyond the sequence.
    let starts = [shape.sequences, shape.queries];
    let documents = (step.small(1) > 3).then(|| typed(world, step, DType::U32, &starts));
    let documents = documents.transpose()?;
    let (out, log_sum_exp) = ops::attention(shape, &q, &k, &v, documents.as_ref())?;
    let d_out = out.clone();
    let saved = Saved {
        q,
        k,
        v,
        out,
        log_sum_exp,
        documents,
    };
    let [d_q, ..] = ops::attention_backward(shape, &saved, &d_out)?;
    let accumulated = ops::cast(&d_q, d_q.dtype().accumulator())?;
    let sums = &saved.log_sum_exp;
    ops::attention_join(shape, (&accumulated, sums), (&saved.out, sums))?;
    keep(world, |_| Ok(d_q))
}

fn loss(world: &mut World, step: &Step) -> Result<()> {
    let logits = world.tensor(step.tensors[0]);
    let shard = VocabularyShard {
        first_column: step.sizes[0],
        vocabulary: step.sizes[1],
    };
    let targets = typed(world, step, DType::U32, &[logits.num_rows()])?;
    let parts = match step.small(4) {
        0..3 => world.tensor(step.tensors[1]),
        _ => ops::loss::statistics(&logits, &targets, shard)?,
    };
    let (widths, runs) = match step.fits() {
        true => (vec![logits.columns()], 1),
        false => (
            step.sizes[..step.small(2).min(step.sizes.len())].to_vec(),
            step.sizes[2],
        ),
    };
    let scale = step.numbers[0];
    let (log_sum_exp, loss) = ops::loss::combine(&parts, &targets, &widths, runs, scale)?;
    let [scale, ..] = step.numbers;
    ops::loss::backward(&logits, &targets, &log_sum_exp, &loss, shard, scale)
}

fn optimise(world: &mut World, step: &Step, rule: &str) -> Result<()> {
    let device = world.device(step.choices[2]).clone();
    let mut updates = Vec::new();
    for index in 0..step.small(0) % 4 {
        let any = |other: usize| Ok(world.tensor(step.tensors[(index + other) % 6]));
        let like = |other: usize| match step.fits() {
            true => Tensor::full(&device, step.dtype(), step.shape(), 0.5),
            false => any(other),
        };
        let states = match rule {
            "adamw" => 2,
            "lion" | "momentum" => 1,
            _ => step.small(1) % 3,
        };
        updates.push(Update {
            weights: like(0)?,
            gradients: like(1)?,
            state: (0..states)
                .map(|state| like(2 + state))
                .collect::<Result<_>>()?,
            compute: match step.small(2) {
                0..3 => Some(any(4)?),
                3..6 => Some(Tensor::zeros(&device, DType::Bf16, step.shape())?),
                _ => None,
            },
            weight_decay: step.numbers[0],
        });
    }
    let sum = Tensor::full(&device, DType::F64, &[1], step.numbers[1])?;
    let factor = match step.small(3) {
        0 => world.tensor(step.tensors[5]),
        _ => ops::optimiser::clip_scale(&sum, Some(step.numbers[2]), 1.0)?,
    };
    let [rate, momentum, epsilon] = step.numbers;
    let settings = AdamW {
        rate,
        beta1: momentum,
        beta2: 0.9,
        epsilon,
        step: step.sizes[4] as u64,
    };
    let lion = Lion {
        rate,
        beta1: momentum,
        beta2: 0.9,
    };
    match rule {
        "adamw" => ops::optimiser::adamw(&device, &updates, &factor, settings),
        "lion" => ops::optimiser::lion(&device, &updates, &factor, lion),
        "momentum" => ops::optimiser::momentum(&device, &updates, &factor, momentum),
        _ => ops::optimiser::sgd(&device, &updates, &factor, rate, momentum),
    }
}

fn coded(world: &mut World, step: &Step) -> Result<()> {
    let device = world.device(step.choices[2]).clone();
    let any = |index: usize| Ok(world.tensor(step.tensors[index % 6]));
    let place = BlockPlace {
        columns: step.sizes[0],
        first_column: step.sizes[1],
        start: step.sizes[2],
    };
    let like = |index: usize, dtype: DType, shape: &[usize]| match step.fits() {
        true => Tensor::full(&device, dtype, shape, 0.5),
        false => any(index),
    };
    let (own, dtype) = (step.shape(), step.dtype());
    let weights = like(0, dtype, own)?;
    // As many scales as there are blocks, if that is a number.
    let blocks = [place.num_blocks(weights.num_elements()).unwrap_or(1)];
    let update = CodedUpdate {
        weights,
        gradients: like(1, dtype, own)?,
        codes: [like(2, DType::U8, own)?, like(3, DType::U8, own)?],
        scales: [like(4, dtype, &blocks)?, like(5, dtype, &blocks)?],
        next: [like(6, dtype, &blocks)?, like(7, dtype, &blocks)?],
        place,
        compute: (step.small(2) < 3).then(|| any(4)).transpose()?,
        weight_decay: step.numbers[0],
    };
    let sum = Tensor::full(&device, DType::F64, &[1], step.numbers[1])?;
    let factor = ops::optimiser::clip_scale(&sum, Some(step.numbers[2]), 1.0)?;
    let [rate, beta1, epsilon] = step.numbers;
    let settings = AdamW {
        rate,
        beta1,
        beta2: 0.9,
        epsilon,
        step: step.sizes[4] as u64,
    };
    ops::coded::coded_scales(&device, std::slice::from_ref(&update), &factor, settings)?;
    ops::coded::coded_adamw(&device, &[update], &factor, settings)
}

fn factored(world: &mut World, step: &Step) -> Result<()> {
    let device = world.device(step.choices[2]).clone();
    let any = |index: usize| Ok(world.tensor(step.tensors[index % 6]));
    let like = |index: usize, dtype: DType, shape: &[usize]| match step.fits() {
        true => Tensor::full(&device, dtype, shape, step.numbers[0]),
        false => any(index),
    };
    let place = LinePlace {
        columns: step.sizes[0],
        start: step.sizes[1],
    };
    let elements = like(0, step.dtype(), step.shape())?;
    // As many lines as the elements touch, if that is a number.
    let rows = place.num_rows(elements.num_elements()).unwrap_or(1);
    let counts = [rows, place.columns.min(1 << 16)];
    let lines = |index: usize, dtype: DType| -> Result<[Tensor; 2]> {
        let rows = like(index, dtype, &counts[..1])?;
        Ok([rows, like(index + 1, dtype, &counts[1..])?])
    };
    let (largest, squares) = (lines(1, DType::F64)?, lines(3, DType::F64)?);
    let has_columns = step.small(2) < 6;
    let of = |[rows, columns]: &[Tensor; 2]| Lines {
        rows: rows.clone(),
        columns: has_columns.then(|| columns.clone()),
    };
    let piece = LinePiece {
        elements: elements.clone(),
        place,
        largest: of(&largest),
        sums: of(&squares),
        terms: [step.sizes[2], step.sizes[3]],
    };
    let pieces = std::slice::from_ref(&piece);
    factored::line_largest(pieces)?;
    factored::line_squares(pieces)?;
    let sum = Tensor::full(&device, DType::F64, &[1], step.numbers[1])?;
    let factor = ops::optimiser::clip_scale(&sum, Some(step.numbers[2]), 1.0)?;
    let (means, factors) = (lines(5, step.dtype())?, lines(7, step.dtype())?);
    let matrix = FactoredMatrix {
        largest: largest.clone(),
        sums: squares.clone(),
        means,
        factors: factors.clone(),
    };
    let [keep, epsilon, most] = step.numbers;
    factored::factor_means(&device, &[matrix], &factor, Means { keep, epsilon })?;
    let piece = FactoredPiece {
        gradients: elements,
        place,
        factors,
    };
    factored::factor_directions(&device, &[piece], &factor)?;
    let ([largest, _], [sums, _]) = (largest, squares);
    let clipped = FactoredStep {
        largest,
        sums,
        clip: like(9, DType::F64, &[2])?,
        elements: step.sizes[4],
    };
    factored::clip_directions(&device, &[clipped], &factor, most)
}

// Arguments that fit are of the first device.
fn beside(
    world: &World,
    step: &Step,
    dtype: DType,
    count: usize,
) -> Result<(Device, Stream, Tensor)> {
    let other = typed(world, step, dtype, &[count])?;
    let (device, stream) = match step.fits() {
        true => (1, step.choices[0] % 3),
        false => (step.choices[1], step.choices[0]),
    };
    Ok((
        world.device(device).clone(),
        world.stream(stream).clone(),
        other,
    ))
}

fn lend_mut(world: &mut World, step: &Step) -> Result<()> {
    let mut elements = vec![step.numbers[0] as f32; 8 * step.small(0) + 1];
    let (device, stream, other) = beside(world, step, DType::F32, elements.len())?;
    let count = if step.fits() {
        elements.len()
    } else {
        step.sizes[2]
    };
    let lent = Tensor::lend_mut(&device, &[count], &mut elements, |tensor| {
        world.gone = Some(tensor.clone());
        let group = world.group(step.choices[2] | 1);
        group.all_reduces(&stream, &[tensor, &other], ReduceOp::Sum)?;
        ops::axpby_on(&stream, step.numbers[1], &other, step.numbers[2], tensor)
    });
    elements.fill(0.5);
    lent
}

fn lend(world: &mut World, step: &Step) -> Result<()> {
    let elements = vec![step.numbers[0]; 8 * step.small(0) + 1];
    let (device, stream, other) = beside(world, step, DType::F32, elements.len())?;
    Tensor::lend(&device, &[elements.len()], &elements, |tensor| {
        world.gone = Some(tensor.clone());
        assert!(tensor.fill(0.0).is_err());
        ops::cast_into_on(&stream, tensor, &other)
    })
}

fn custom(world: &mut World, step: &Step) -> Result<()> {
    let kernel = Arc::new(CustomKernel::new("mine").on_host(|args| {
        let (x, y) = (args.read::<f32>(0)?, args.write::<f32>(1)?);
        x.iter().zip(y).for_each(|(x, y)| *y += x);
        Ok(())
    }));
    let [x, y, z] = [0, 1, 2].map(|index| world.tensor(step.tensors[index]));
    let call = ops::custom(&kernel)
        .read(&x)
        .update(&y)
        .number(step.numbers[0]);
    match step.fits() {
        true => call.launch(),
        false => call.write(&z).elements(step.sizes[0]).launch(),
    }
}

fn var(world: &mut World, step: &Step) -> Result<()> {
    let (x, y) = (world.var(step.tensors[0]), world.var(step.tensors[1]));
    let made = match step.sizes[0] % 9 {
        0 => x.add(&y),
        1 => x.sub(&y),
        2 => x.mul(&y),
        3 => x.scale(step.numbers[0]),
        4 => x.unary(unary(step)),
        5 => x.swiglu(&y),
        6 => x.reshape(step.shape()),
        7 => Ok(x.detach()),
        _ => Ok(Var::tracked(world.tensor(step.tensors[2])).0),
    }?;
    world.vars.push(made);
    Ok(())
}

fn parts(world: &mut World, step: &Step, scatter: bool) -> Result<()> {
    let tensors = step.tensors.map(|index| world.tensor(index));
    let counts: Vec<Counts> = (0..3)
        .map(|pair| match (step.fits(), step.small(1)) {
            (true, 0..5) => Counts::Even(tensors[2 * pair].num_elements()),
            (true, _) => Counts::Uneven(vec![tensors[2 * pair].num_elements()]),
            (false, 0..5) => Counts::Even(step.sizes[2]),
            (false, _) => Counts::Uneven(step.sizes[..step.small(3) % 4].to_vec()),
        })
        .collect();
    let all: Vec<UnevenShards<'_>> = (0..3)
        .map(|pair| UnevenShards {
            send: &tensors[2 * pair],
            recv: &tensors[2 * pair + usize::from(step.small(2) > 2)],
            counts: &counts[pair],
        })
        .take(1 + step.small(0) % 3)
        .collect();
    let (group, stream) = (
        world.group(step.choices[2] | 1),
        world.stream(step.choices[0]),
    );
    match scatter {
        true => group.reduce_scatters(stream, &all, ReduceOp::Sum),
        false => group.all_gathers(stream, &all),
    }
}
