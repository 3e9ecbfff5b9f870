//! Range top-k by differential dataflow: a sparse table of windows' best objects, two windows a subscription.
//!
//! Objects stand in the order of x, which does not change. The window of level j at place i holds the k best of
//! the objects i .. i + 2^j and is the merge of two windows of the level below. A range is the union of two
//! windows of one level, which may overlap; its list is the merge of theirs. Every level is an arrangement that
//! both the next level and the subscriptions of its own size use. One worker, one thread.
//!
//! Speaks over standard input and output, numbers in little-endian order. First: k, objects, subscriptions (u32);
//! ids in the order of x (u32), values (f64); for each range where it begins and ends in that order (u32). Then
//! batches: a count (u32), places (u32), new values (f64), answered by the number of changed lists (u64) once all
//! lists are right. A count of 2^32 - 1 asks for a list: its row (u32), answered by its length and ids (u32).

use std::cell::RefCell;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::rc::Rc;

use differential_dataflow::input::InputSession;
use differential_dataflow::trace::implementations::{ValBuilder, ValSpine};
use timely::dataflow::operators::probe::Handle;

type Item = (u64, u32);
type List = Vec<Item>;

const ASKED: u32 = u32::MAX;

/// The bits of a value in the order of values.
fn ordered(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The first k of two lists in order; what is in both counts once.
fn merged(one: &[Item], other: &[Item], k: usize) -> List {
    let mut made = List::with_capacity(k.min(one.len() + other.len()));
    let (mut i, mut j) = (0, 0);
    while made.len() < k && (i < one.len() || j < other.len()) {
        if j == other.len() || (i < one.len() && one[i] <= other[j]) {
            if j < other.len() && one[i] == other[j] {
                j += 1;
            }
            made.push(one[i]);
            i += 1;
        } else {
            made.push(other[j]);
            j += 1;
        }
    }
    made
}

/// The list of a group: one window, or two of them.
fn best(input: &[(&List, isize)], k: usize) -> List {
    match input {
        [one] => one.0.clone(),
        [one, other] => merged(one.0, other.0, k),
        _ => unreachable!("a group has one window or two"),
    }
}

struct Source<R: Read>(R);

impl<R: Read> Source<R> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    fn integer(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn integers(&mut self, count: u32) -> Vec<u32> {
        (0..count).map(|_| self.integer().expect("an integer")).collect()
    }

    fn values(&mut self, count: u32) -> Vec<u64> {
        (0..count).map(|_| ordered(f64::from_le_bytes(self.bytes().expect("a value")))).collect()
    }
}

fn main() {
    let mut source = Source(BufReader::with_capacity(1 << 20, io::stdin()));
    let mut sink = BufWriter::new(io::stdout());
    let k = source.integer().expect("k") as usize;
    let objects = source.integer().expect("a number of objects");
    let subscriptions = source.integer().expect("a number of subscriptions");
    let labels = source.integers(objects);
    let mut values = source.values(objects);
    let first = source.integers(subscriptions);
    let end = source.integers(subscriptions);
    let levels = 32 - objects.leading_zeros();

    timely::execute_directly(move |worker| {
        let lists = Rc::new(RefCell::new(vec![List::new(); subscriptions as usize]));
        let changed = Rc::new(RefCell::new(0u64));
        let mut input = InputSession::<u32, (u32, List), isize>::new();
        let mut asked: Vec<_> = (0..levels).map(|_| InputSession::<u32, (u32, u32), isize>::new()).collect();
        let probe = Handle::new();
        worker.dataflow(|scope| {
            let mut below = input.to_collection(scope);
            let mut found = Vec::new();
            for (level, asked) in asked.iter_mut().enumerate() {
                let windows = below.reduce_abelian::<_, ValBuilder<_, _, _, _>, ValSpine<_, _, _, _>>(
                    "windows",
                    move |_, input, output| output.push((best(input, k), 1)),
                );
                let wide = 1u32 << level;
                below = windows.clone().flat_map_ref(move |&place, list: &List| {
                    let right = (u64::from(place) + 2 * u64::from(wide) <= u64::from(objects))
                        .then(|| (place, list.clone()));
                    let left = (place >= wide).then(|| (place - wide, list.clone()));
                    right.into_iter().chain(left)
                });
                let interested = asked.to_collection(scope).arrange_by_key();
                found.push(windows.join_core(interested, |_, list, &row| Some((row, list.clone()))));
            }
            let kept = Rc::clone(&lists);
            let counted = Rc::clone(&changed);
            differential_dataflow::collection::concatenate(scope, found)
                .reduce(move |_, input, output: &mut Vec<(List, isize)>| output.push((best(input, k), 1)))
                .inspect(move |((row, list), _, change)| {
                    if *change > 0 {
                        kept.borrow_mut()[*row as usize] = list.clone();
                        *counted.borrow_mut() += 1;
                    }
                })
                .probe_with(&probe);
        });

        for row in 0..subscriptions {
            let (low, high) = (first[row as usize], end[row as usize]);
            if low < high {
                let level = 31 - (high - low).leading_zeros();
                let session = &mut asked[level as usize];
                session.insert((low, row));
                if high - (1 << level) != low {
                    session.insert((high - (1 << level), row));
                }
            }
        }
        for place in 0..objects {
            input.insert((place, vec![(values[place as usize], labels[place as usize])]));
        }
        let mut time = 0;
        loop {
            time += 1;
            for session in &mut asked {
                session.advance_to(time);
                session.flush();
            }
            input.advance_to(time);
            input.flush();
            worker.step_while(|| probe.less_than(input.time()));
            sink.write_all(&changed.replace(0).to_le_bytes()).expect("a reader");
            sink.flush().expect("a reader");
            let count = loop {
                match source.integer() {
                    None => return,
                    Some(ASKED) => {
                        let row = source.integer().expect("a row") as usize;
                        let lists = lists.borrow();
                        sink.write_all(&(lists[row].len() as u32).to_le_bytes()).expect("a reader");
                        for (_, label) in &lists[row] {
                            sink.write_all(&label.to_le_bytes()).expect("a reader");
                        }
                        sink.flush().expect("a reader");
                    }
                    Some(count) => break count,
                }
            };
            let places = source.integers(count);
            for (place, value) in places.into_iter().zip(source.values(count)) {
                let (old, label) = (values[place as usize], labels[place as usize]);
                input.remove((place, vec![(old, label)]));
                input.insert((place, vec![(value, label)]));
                values[place as usize] = value;
            }
        }
    });
}
