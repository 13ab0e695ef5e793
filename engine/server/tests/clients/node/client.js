// Node's driver against a server at 127.0.0.1, port PORT: node client.js PORT
'use strict';
const assert = require('assert');
const cassandra = require('cassandra-driver');
const {types} = cassandra;

const options = (more) => Object.assign({
  contactPoints: [`127.0.0.1:${process.argv[2]}`], localDataCenter: 'datacenter1',
}, more);

async function main() {
  const first = new cassandra.Client(options());
  await first.connect();
  await first.execute("CREATE KEYSPACE IF NOT EXISTS node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
  await first.shutdown();
  const client = new cassandra.Client(options({keyspace: 'node'}));
  await client.connect();
  assert.strictEqual(client.controlConnection.protocolVersion, 4);
  await client.execute('DROP TABLE IF EXISTS every');
  await client.execute('CREATE TABLE every (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, ' +
    'h duration, i float, j inet, l list<int>, m map<text, int>, n set<text>, o smallint, p text, q time, r timestamp, s timeuuid, ' +
    't tinyint, u tuple<int, text>, v uuid, w varint)');
  const meta = await client.metadata.getTable('node', 'every');
  assert.strictEqual(meta.columns.length, 23);
  const values = {
    k: 1, a: 'plain', b: types.Long.fromString('-9223372036854775808'), c: Buffer.from([0, 255]), d: true,
    e: types.LocalDate.fromString('1969-12-31'), f: types.BigDecimal.fromString('-1.50'), g: 1.5e300,
    h: types.Duration.fromString('1mo2d3ns'), i: 0.5, j: types.InetAddress.fromString('127.0.0.1'), l: [3, 1, 2], m: {x: 1},
    n: ['a', 'b'], o: -32768, p: 'grüße', q: types.LocalTime.fromString('08:12:54.123456789'), r: new Date(1250558004007),
    s: types.TimeUuid.now(), t: -128, u: new types.Tuple(1, 'y'), v: types.Uuid.random(),
    w: types.Integer.fromString('1000000000000000000000000000000'),
  };
  const names = Object.keys(values);
  await client.execute(`INSERT INTO every (${names}) VALUES (${names.map((n) => ':' + n)})`, values, {prepare: true});
  const row = (await client.execute('SELECT * FROM every WHERE k = ?', [1], {prepare: true})).first();
  for (const name of names) {
    const [got, wanted] = [row[name], values[name]];
    if (wanted && wanted.equals) assert.ok(wanted.equals(got), `${name}: ${got}`);
    else assert.deepStrictEqual(got, wanted, name);
  }

  await client.execute('DROP TABLE IF EXISTS rows');
  await client.execute('CREATE TABLE rows (k int, c int, v text, PRIMARY KEY (k, c))');
  const put = 'INSERT INTO rows (k, c, v) VALUES (?, ?, ?)';
  const all = Array.from({length: 500}, (_, i) => [i % 3, i, `v${i}`]);
  await cassandra.concurrent.executeConcurrent(client, put, all);
  let seen = 0;
  for await (const _ of client.stream('SELECT * FROM rows', [], {prepare: true, fetchSize: 30, autoPage: true})) seen++;
  assert.strictEqual(seen, 500);
  await client.batch(all.slice(0, 20).map(([, c]) => ({query: put, params: [9, c, 'b']})), {prepare: true});
  const counted = await client.execute('SELECT count(*) FROM rows WHERE k = 9');
  assert.strictEqual(counted.first().count.toNumber(), 20);
  const again = await client.execute("INSERT INTO rows (k, c, v) VALUES (9, 0, 'x') IF NOT EXISTS");
  assert.strictEqual(again.wasApplied(), false);
  await client.execute('SELECT * FROM rows WHERE k = ?', [9], {prepare: true});
  const changed = new Promise((done) => client.metadata && client.controlConnection && done());
  await client.execute('ALTER TABLE rows ADD w int');
  await changed;
  const wide = await client.execute('SELECT * FROM rows WHERE k = ?', [9], {prepare: true});
  assert.ok('w' in wide.first());
  const traced = await client.execute('SELECT * FROM rows WHERE k = 9', [], {traceQuery: true});
  const trace = await client.metadata.getTrace(traced.info.traceId);
  assert.ok(trace.events.length >= 2 && trace.duration > 0);
  await assert.rejects(client.execute('SELECT * FROM nowhere'), {code: types.responseErrorCodes.invalid});
  await assert.rejects(client.execute('SELEKT'), {code: types.responseErrorCodes.syntaxError});
  await client.shutdown();
  console.log('node: protocol 4: good');
}

main().catch((e) => { console.error(e); process.exit(1); });
