//! Jobs that outlive their processes: `mpirun --with-ft ulfm -n 5 under_mpirun outlive`, as run by `ci/survive.sh`.

use crate::{collectives::join, run};
use bootstrap::{Processes, World};
use grid::Degrees;
use job::Job;
use std::{
    cell::Cell,
    process::{self, Command},
    time::Duration,
};
use tensor::{DType, Device, Error, ReduceOp, Result, StreamKind, Tensor};

/// The most processes that work; others stand by.
const MOST: usize = 3;
/// Numbers of an addend: more than MPI sends without asking the receiver first.
const COUNT: usize = 100_000;
const SUMS: usize = 20;

/// Processes die while the others wait for their addends, and one just as the others form their job: first the first of five and then
/// the second, then the last of three, until two are left.
pub(crate) fn check(processes: &'static dyn Processes) -> std::result::Result<String, String> {
    let told = |error: Error| error.to_string();
    processes.outlive().map_err(told)?;
    let device = processes.ordinal();
    let left = Cell::new(0);
    let mut said = Vec::new();
    loop {
        let choose = |count: usize| {
            left.set(count);
            Some(count.min(MOST))
        };
        let place = processes.reform(&choose).map_err(told)?;
        if processes.ordinal() != device {
            return Err("the device of a process has changed".into());
        }
        let count = left.get();
        let victim = match count {
            0..=2 => None,
            3 => Some(place.size - 1),
            _ => Some(0),
        };
        let summed = run(processes, 20, move |world, device| {
            sums(world, device, victim)
        });
        match (summed, victim) {
            (Ok(()), None) => break,
            (Err(report), Some(victim)) if processes.goes_on() => {
                let names = format!("rank {victim} failed: its process ");
                if !report.starts_with(&names) {
                    return Err(format!("found {report}, needs {names}"));
                }
                said.push(format!("of {count} processes rank {victim} has died"));
                if count == 5 && place.rank == 1 {
                    die();
                }
            }
            (Err(report), _) => return Err(report),
            (Ok(()), Some(_)) => return Err("sums without a rank that has died".into()),
        }
    }
    said.push(format!("{} are left, and sum", left.get()));
    Ok(said.join("; "))
}

// Without any farewell.
fn die() {
    let own = process::id().to_string();
    drop(Command::new("kill").args(["-KILL", &own]).status());
    std::thread::sleep(Duration::from_secs(60));
}

/// The last process dies when the work is done, before the processes have taken leave of each other.
pub(crate) fn check_late(processes: &'static dyn Processes) -> std::result::Result<String, String> {
    processes.outlive().map_err(|error| error.to_string())?;
    let place = processes.join().map_err(|error| error.to_string())?;
    run(processes, 20, |world, _| world.everyone().barrier())?;
    if place.rank + 1 == place.size {
        die();
    }
    Ok("the work is done".into())
}

/// A job that continues on the grid of the processes that are left.
pub(crate) fn check_job(processes: &'static dyn Processes) -> std::result::Result<String, String> {
    let all = |left| {
        Some(Degrees {
            data: left,
            ..Degrees::default()
        })
    };
    let job = Job::new([cpu::driver()]).processes(Some(processes));
    let job = job.degrees(all(4).unwrap_or_default()).survive(all);
    let sizes = job.run(|context| {
        let world = context.world();
        for number in 0..10 {
            world.everyone().barrier()?;
            if number == 5 && world.size() > 2 && world.rank() == 1 {
                die();
            }
        }
        Ok::<_, Error>(world.size())
    });
    match sizes {
        Ok(sizes) if sizes == [2, 2] => Ok("two of four processes are left".into()),
        other => Err(format!("found {other:?}, needs [2, 2]")),
    }
}

fn sums(world: &World, device: &Device, victim: Option<usize>) -> Result<()> {
    let all: Vec<usize> = (0..world.size()).collect();
    let group = join(world, device, "survivors", &all)?;
    let stream = device.create_stream(StreamKind::Communication, "sums")?;
    let expected = all.iter().map(|&rank| rank as f64 + 1.0).sum::<f64>();
    for sum in 0..SUMS {
        if victim == Some(world.rank()) && sum == SUMS / 2 {
            die();
        }
        let own = Tensor::full(device, DType::F32, &[COUNT], world.rank() as f64 + 1.0)?;
        group.all_reduce(&stream, &own, ReduceOp::Sum)?;
        let summed = own.to_f64()?;
        if summed.iter().any(|sum| *sum != expected) {
            return Err(Error::invalid(
                "sum",
                summed[0].to_string(),
                expected.to_string(),
            ));
        }
    }
    Ok(())
}
