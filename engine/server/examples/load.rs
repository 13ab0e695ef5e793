//! Load generator for a server, Firn's or Cassandra's, on the native protocol alone. It prepares
//! statements once, builds requests by hand and only counts the responses, so it takes little CPU
//! from the server.
//!
//! ```sh
//! cargo run --release -p firn-server --example load -- 127.0.0.1:9042 8 32 10
//! ```
//!
//! The arguments are the number of connections, the requests in flight on each, and the seconds for
//! each load. A word after them selects the loads whose names contain it; `all` selects every load.
//! The program recreates the keyspace `load`, unless the word `keep` follows. For each load it
//! prints the requests per second and their latencies.

#![allow(clippy::disallowed_methods, reason = "a client measures by the clock of its machine")]

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const VERSION: u8 = 4;
const ROWS: u64 = 100_000;
/// Rows of a partition, for slices.
const SLICE: u64 = 100;

const STARTUP: u8 = 1;
const QUERY: u8 = 7;
const PREPARE: u8 = 9;
const EXECUTE: u8 = 10;

fn long_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn put_frame(out: &mut Vec<u8>, stream: i16, opcode: u8, body: &[u8]) {
    out.extend([VERSION, 0]);
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
}

struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Outcome<Connection> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        let reader = BufReader::with_capacity(64 << 10, writer.try_clone()?);
        let mut made = Connection { reader, writer, body: vec![] };
        made.ask(STARTUP, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")?;
        Ok(made)
    }

    /// Returns stream and opcode of the next response, and stores its body.
    fn receive(&mut self) -> Outcome<(i16, u8)> {
        let mut header = [0; 9];
        self.reader.read_exact(&mut header)?;
        let [.., l0, l1, l2, l3] = header;
        self.body.resize(u32::from_be_bytes([l0, l1, l2, l3]) as usize, 0);
        self.reader.read_exact(&mut self.body)?;
        if header[4] == 0 {
            let text = String::from_utf8_lossy(self.body.get(6..).unwrap_or_default());
            return Err(format!("the server refuses: {text}").into());
        }
        Ok((i16::from_be_bytes([header[2], header[3]]), header[4]))
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Outcome<()> {
        let mut out = vec![];
        put_frame(&mut out, 0, opcode, body);
        self.writer.write_all(&out)?;
        self.receive().map(drop)
    }

    fn run(&mut self, text: &str) -> Outcome<()> {
        self.ask(QUERY, &[long_string(text), vec![0, 1, 0]].concat())
    }

    fn prepare(&mut self, text: &str) -> Outcome<Vec<u8>> {
        self.ask(PREPARE, &long_string(text))?;
        let len = usize::from(u16::from_be_bytes([self.body[4], self.body[5]]));
        Ok(self.body[6..6 + len].to_vec())
    }
}

/// The type of a load.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    Insert,
    Read,
    /// Half inserts, half reads.
    Mixed,
    /// Reads of a partition of a hundred rows.
    Slice,
}

const LOADS: [(Load, &str); 4] = [
    (Load::Insert, "prepared inserts"),
    (Load::Read, "reads by key"),
    (Load::Mixed, "half of each"),
    (Load::Slice, "slices of 100 rows"),
];

#[derive(Clone)]
struct Ids {
    put: Vec<u8>,
    get: Vec<u8>,
    slice: Vec<u8>,
}

/// Random number generator with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn put_execute(out: &mut Vec<u8>, stream: i16, id: &[u8], values: &[&[u8]]) {
    put_frame(out, stream, EXECUTE, &[]);
    let begun = out.len();
    out.extend((id.len() as u16).to_be_bytes());
    out.extend(id);
    // Consistency ONE; values, no metadata in the response.
    out.extend([0, 1, 0x03]);
    out.extend((values.len() as u16).to_be_bytes());
    for value in values {
        out.extend((value.len() as u32).to_be_bytes());
        out.extend(*value);
    }
    let len = (out.len() - begun) as u32;
    out[begun - 4..begun].copy_from_slice(&len.to_be_bytes());
}

fn put_request(out: &mut Vec<u8>, stream: i16, load: Load, ids: &Ids, dice: &mut Dice) {
    let row = dice.below(ROWS);
    let partition = (row / SLICE).to_be_bytes();
    let inserts = load == Load::Insert || load == Load::Mixed && dice.below(2) == 0;
    match load {
        Load::Slice => put_execute(out, stream, &ids.slice, &[&partition]),
        _ if inserts => put_row(out, stream, ids, row),
        _ => put_execute(out, stream, &ids.get, &[&partition, &(row % SLICE).to_be_bytes()]),
    }
}

fn put_row(out: &mut Vec<u8>, stream: i16, ids: &Ids, row: u64) {
    // The number at the end of a hundred digits.
    let (mut text, mut at, mut rest) = ([b'0'; 100], 100, row);
    while rest > 0 {
        at -= 1;
        text[at] += (rest % 10) as u8;
        rest /= 10;
    }
    let values = [&(row / SLICE).to_be_bytes()[..], &(row % SLICE).to_be_bytes(), &text];
    put_execute(out, stream, &ids.put, &values);
}

/// Runs one connection's part of a load; returns the latency of each request in nanoseconds.
fn work(
    address: SocketAddr,
    load: Load,
    ids: &Ids,
    window: usize,
    time: Duration,
    seed: u64,
) -> Outcome<Histogram<u64>> {
    let mut connection = Connection::open(address)?;
    let mut dice = Dice(seed * 0x9e37_79b9 + 1);
    let mut took = Histogram::<u64>::new(3)?;
    let (mut out, mut sent) = (vec![], vec![Instant::now(); window]);
    for stream in 0..window {
        put_request(&mut out, stream as i16, load, ids, &mut dice);
    }
    let begun = Instant::now();
    sent.fill(begun);
    connection.writer.write_all(&out)?;
    let mut under_way = window;
    while under_way > 0 {
        out.clear();
        loop {
            let (stream, _) = connection.receive()?;
            let now = Instant::now();
            took.record((now - sent[stream as usize]).as_nanos() as u64)?;
            if now - begun < time {
                put_request(&mut out, stream, load, ids, &mut dice);
                sent[stream as usize] = now;
            } else {
                under_way -= 1;
            }
            // Requests for responses that arrived together are sent together.
            if connection.reader.buffer().len() < 9 || under_way == 0 {
                break;
            }
        }
        connection.writer.write_all(&out)?;
    }
    Ok(took)
}

/// Creates the keyspace and its rows, unless existing ones are to be used.
fn prepare(address: SocketAddr, keep: bool) -> Outcome<Ids> {
    let mut connection = Connection::open(address)?;
    if !keep {
        // Left from another run, perhaps.
        let _ = connection.run("DROP KEYSPACE load");
        connection.run(
            "CREATE KEYSPACE load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )?;
        connection
            .run("CREATE TABLE load.rows (k bigint, c bigint, v text, PRIMARY KEY (k, c))")?;
    }
    let ids = Ids {
        put: connection.prepare("INSERT INTO load.rows (k, c, v) VALUES (?, ?, ?)")?,
        get: connection.prepare("SELECT v FROM load.rows WHERE k = ? AND c = ?")?,
        slice: connection.prepare("SELECT c, v FROM load.rows WHERE k = ?")?,
    };
    if keep {
        return Ok(ids);
    }
    let mut out = vec![];
    for first in (0..ROWS).step_by(100) {
        out.clear();
        (first..first + 100).for_each(|row| put_row(&mut out, (row % 100) as i16, &ids, row));
        connection.writer.write_all(&out)?;
        for _ in 0..100 {
            connection.receive()?;
        }
    }
    Ok(ids)
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:9042".into()).parse()?;
    let number = |text: Option<String>, default: u64| text.map_or(Ok(default), |text| text.parse());
    let connections = number(arguments.next(), 8)?;
    let window = number(arguments.next(), 32)? as usize;
    let seconds = number(arguments.next(), 10)?;
    let chosen = arguments.next().filter(|word| word != "all").unwrap_or_default();
    let ids = prepare(address, arguments.next().as_deref() == Some("keep"))?;
    println!("{connections} connections, {window} requests under way on each, {seconds} s");
    println!("{:<20} {:>10} {:>9} {:>9} {:>9}", "", "a second", "p50 µs", "p99 µs", "max µs");
    for (load, name) in LOADS.into_iter().filter(|(_, name)| name.contains(&chosen)) {
        let time = Duration::from_secs(seconds);
        let mut took = Histogram::<u64>::new(3)?;
        let begun = Instant::now();
        std::thread::scope(|scope| -> Outcome<()> {
            let part = |seed| {
                let ids = &ids;
                scope.spawn(move || {
                    work(address, load, ids, window, time, seed).map_err(|e| e.to_string())
                })
            };
            let parts: Vec<_> = (0..connections).map(part).collect();
            for part in parts {
                took.add(part.join().map_err(|_| "a connection's thread panicked")??)?;
            }
            Ok(())
        })?;
        let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
        let micros = |quantile: f64| took.value_at_quantile(quantile) as f64 / 1000.0;
        let (half, most, max) = (micros(0.5), micros(0.99), took.max() as f64 / 1000.0);
        println!("{name:<20} {rate:>10.0} {half:>9.0} {most:>9.0} {max:>9.0}");
    }
    Ok(())
}
