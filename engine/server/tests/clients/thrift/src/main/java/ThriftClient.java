// The bindings that Cassandra 3.11 published, against a server's Thrift port at 127.0.0.1:
// java ThriftClient PORT
import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.util.*;
import org.apache.cassandra.thrift.*;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.*;

public class ThriftClient {
  interface Call {
    void run() throws Exception;
  }

  static void check(boolean holds, Object what) {
    if (!holds) throw new AssertionError(what);
  }

  static void refused(Class<?> with, Call call) throws Exception {
    try {
      call.run();
    } catch (Exception e) {
      check(with.isInstance(e), e);
      return;
    }
    check(false, "nothing is refused");
  }

  static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(UTF_8));
  }

  static String text(byte[] bytes) {
    return new String(bytes, UTF_8);
  }

  static Column column(String name, String value, long timestamp) {
    return new Column(bytes(name)).setValue(bytes(value)).setTimestamp(timestamp);
  }

  static SlicePredicate all(boolean reversed) {
    return new SlicePredicate().setSlice_range(new SliceRange(bytes(""), bytes(""), reversed, 100));
  }

  static void conversation(int port, boolean framed, boolean strict) throws Exception {
    TTransport socket = new TSocket("127.0.0.1", port, 20000);
    TTransport transport = framed ? new TFramedTransport(socket) : socket;
    transport.open();
    Cassandra.Client client = new Cassandra.Client(new TBinaryProtocol(transport, strict, strict));
    ConsistencyLevel one = ConsistencyLevel.ONE;
    client.login(new AuthenticationRequest(Map.of("username", "x", "password", "y")));
    check(client.describe_version().equals("20.1.0"), client.describe_version());
    check(client.describe_partitioner().endsWith("Murmur3Partitioner"), client.describe_partitioner());
    refused(InvalidRequestException.class, () -> client.set_keyspace("nowhere"));
    for (KsDef def : client.describe_keyspaces()) if (def.getName().equals("Blog")) client.system_drop_keyspace("Blog");
    client.system_add_keyspace(new KsDef("Blog", "org.apache.cassandra.locator.SimpleStrategy", List.of(
        new CfDef("Blog", "Authors").setComparator_type("UTF8Type").setColumn_metadata(List.of(
            new ColumnDef(bytes("city"), "UTF8Type").setIndex_type(IndexType.KEYS).setIndex_name("by_city"))),
        new CfDef("Blog", "Comments").setColumn_type("Super").setComparator_type("LongType").setSubcomparator_type("UTF8Type"),
        new CfDef("Blog", "Hits").setDefault_validation_class("CounterColumnType").setComparator_type("UTF8Type")))
        .setStrategy_options(Map.of("replication_factor", "1")));
    client.set_keyspace("Blog");
    check(client.describe_keyspace("Blog").getCf_defs().size() == 3, "the families");
    refused(NotFoundException.class, () -> client.describe_keyspace("Nowhere"));

    ColumnParent authors = new ColumnParent("Authors");
    client.insert(bytes("arin"), authors, column("city", "Oslo", 1), one);
    client.insert(bytes("arin"), authors, column("mail", "a@b", 1), one);
    client.insert(bytes("bill"), authors, column("city", "Bonn", 1).setTtl(1000), one);
    ColumnPath path = new ColumnPath("Authors").setColumn(bytes("city"));
    check(text(client.get(bytes("arin"), path, one).getColumn().getValue()).equals("Oslo"), "get");
    check(client.get(bytes("bill"), path, one).getColumn().getTtl() == 1000, "the time to live");
    refused(NotFoundException.class, () -> client.get(bytes("carl"), path, one));
    refused(InvalidRequestException.class, () -> client.get(bytes("arin"), path, ConsistencyLevel.ANY));
    refused(InvalidRequestException.class, () -> client.get(bytes(""), path, one));
    List<ColumnOrSuperColumn> slice = client.get_slice(bytes("arin"), authors, all(true), one);
    check(slice.size() == 2 && text(slice.get(0).getColumn().getName()).equals("mail"), slice);
    check(client.get_count(bytes("arin"), authors, all(false), one) == 2, "count");
    check(client.multiget_slice(List.of(bytes("arin"), bytes("none")), authors, all(false), one).size() == 2, "rows of several keys");
    check(client.multiget_count(List.of(bytes("arin")), authors, all(false), one).get(bytes("arin")) == 2, "counts");
    KeyRange range = new KeyRange(100).setStart_key(bytes("")).setEnd_key(bytes(""));
    check(client.get_range_slices(authors, all(false), range, one).size() == 2, "the rows");
    check(client.get_paged_slice("Authors", range, bytes(""), one).size() == 2, "the pages");
    IndexExpression isOslo = new IndexExpression(bytes("city"), IndexOperator.EQ, bytes("Oslo"));
    check(client.get_indexed_slices(authors, new IndexClause(List.of(isOslo), bytes(""), 10), all(false), one).size() == 1, "by the index");
    MultiSliceRequest several = new MultiSliceRequest().setKey(bytes("arin")).setColumn_parent(authors)
        .setColumn_slices(List.of(new ColumnSlice().setStart(bytes("a")).setFinish(bytes("d")), new ColumnSlice().setStart(bytes("b"))));
    check(client.get_multi_slice(several).size() == 2, "several slices");

    Mutation put = new Mutation().setColumn_or_supercolumn(new ColumnOrSuperColumn().setSuper_column(
        new SuperColumn(ByteBuffer.allocate(8).putLong(0, 7), List.of(column("who", "ann", 1), column("what", "hi", 1)))));
    Mutation gone = new Mutation().setDeletion(new Deletion().setTimestamp(2).setPredicate(new SlicePredicate().setColumn_names(List.of(bytes("mail")))));
    Map<ByteBuffer, Map<String, List<Mutation>>> batch =
        Map.of(bytes("post"), Map.of("Comments", List.of(put)), bytes("arin"), Map.of("Authors", List.of(gone)));
    client.batch_mutate(batch, one);
    client.atomic_batch_mutate(batch, one);
    SuperColumn comment = client.get_slice(bytes("post"), new ColumnParent("Comments"), all(false), one).get(0).getSuper_column();
    check(comment.getColumns().size() == 2, comment);
    check(client.get_count(bytes("arin"), authors, all(false), one) == 1, "after the deletion");
    client.remove(bytes("bill"), new ColumnPath("Authors"), 5, one);
    check(client.get_slice(bytes("bill"), authors, all(false), one).isEmpty(), "after the removal");

    client.add(bytes("page"), new ColumnParent("Hits"), new CounterColumn(bytes("all"), 3), one);
    client.add(bytes("page"), new ColumnParent("Hits"), new CounterColumn(bytes("all"), -1), one);
    ColumnPath hits = new ColumnPath("Hits").setColumn(bytes("all"));
    check(client.get(bytes("page"), hits, one).getCounter_column().getValue() == 2, "the counter");
    client.remove_counter(bytes("page"), hits, one);
    refused(NotFoundException.class, () -> client.get(bytes("page"), hits, one));

    CASResult first = client.cas(bytes("dora"), "Authors", List.of(), List.of(column("city", "Rome", 0)), ConsistencyLevel.SERIAL, one);
    CASResult again = client.cas(bytes("dora"), "Authors", List.of(), List.of(column("city", "Bern", 0)), ConsistencyLevel.SERIAL, one);
    CASResult third = client.cas(bytes("dora"), "Authors", List.of(column("city", "Rome", 0)), List.of(column("city", "Bern", 0)), ConsistencyLevel.SERIAL, one);
    check(first.isSuccess() && !again.isSuccess() && again.getCurrent_values().size() == 1 && third.isSuccess(), "compare and set");

    check(client.describe_ring("Blog").size() == 1 && client.describe_local_ring("Blog").size() == 1, "the ring");
    check(client.describe_schema_versions().size() == 1 && client.describe_token_map().size() == 1, "the node");
    check(client.describe_splits("Authors", "0", "0", 10).size() >= 2, "splits");
    client.system_add_column_family(new CfDef("Blog", "More"));
    client.system_update_column_family(new CfDef("Blog", "More").setComment("more"));
    client.system_drop_column_family("More");
    client.truncate("Authors");
    check(client.get_range_slices(authors, all(false), range, one).isEmpty(), "after TRUNCATE");

    Compression none = Compression.NONE;
    client.execute_cql3_query(bytes("CREATE TABLE t (k int PRIMARY KEY, v text)"), none, one);
    CqlPreparedResult prepared = client.prepare_cql3_query(bytes("INSERT INTO t (k, v) VALUES (?, ?)"), none);
    check(prepared.getCount() == 2, prepared);
    client.execute_prepared_cql3_query(prepared.getItemId(), List.of(ByteBuffer.allocate(4).putInt(0, 9), bytes("nine")), one);
    CqlResult rows = client.execute_cql3_query(bytes("SELECT k, v FROM t"), none, one);
    check(rows.getRows().size() == 1 && text(rows.getRows().get(0).getColumns().get(1).getValue()).equals("nine"), rows);
    refused(InvalidRequestException.class, () -> client.execute_cql3_query(bytes("SELEKT"), none, one));
    refused(InvalidRequestException.class, () -> client.execute_cql_query(bytes("SELECT 1"), none));
    client.system_drop_keyspace("Blog");
    transport.close();
    System.out.println("thrift: " + (framed ? "framed" : "plain") + ", " + (strict ? "strict" : "old") + ": good");
  }

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    for (boolean framed : new boolean[] {true, false})
      for (boolean strict : new boolean[] {true, false}) conversation(port, framed, strict);
  }
}
