// Java's driver against a server at 127.0.0.1: java Client PORT
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultProtocolVersion;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import java.util.concurrent.CompletionStage;

public class Client {
  static void check(boolean holds, Object what) {
    if (!holds) throw new AssertionError(what);
  }

  static void refused(CqlSession session, String text, Class<?> with) {
    try {
      session.execute(text);
    } catch (RuntimeException e) {
      check(with.isInstance(e), text + ": " + e);
      return;
    }
    check(false, text + " is not refused");
  }

  static void conversation(int port, String version, String compression) throws Exception {
    var config = DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression);
    if (version != null) config = config.withString(DefaultDriverOption.PROTOCOL_VERSION, version);
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(new InetSocketAddress("127.0.0.1", port))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config.build())
        .build()) {
      var spoken = session.getContext().getProtocolVersion();
      check(version == null ? spoken == DefaultProtocolVersion.V5 : spoken.name().equals(version), spoken);
      session.execute("CREATE KEYSPACE IF NOT EXISTS java WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("DROP TABLE IF EXISTS java.every");
      session.execute("DROP TABLE IF EXISTS java.rows");
      String[] types = {"ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int", "list<text>",
          "map<text, frozen<set<int>>>", "set<uuid>", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varint"};
      Object[] values = {"plain", Long.MIN_VALUE, ByteBuffer.wrap(new byte[] {0, -1}), true, LocalDate.of(1969, 12, 31),
          new BigDecimal("-1.50"), 1.5e300, CqlDuration.from("1mo2d3ns"), 0.5f, InetAddress.getByName("::1"), -7, List.of("b", "a", ""),
          Map.of("k", Set.of(1, 2)), Set.of(new UUID(0, 1)), (short) -32768, "grüße", LocalTime.of(8, 12, 54, 123456789),
          Instant.ofEpochMilli(1250558004007L), Uuids.timeBased(), (byte) -128, Uuids.random(), BigInteger.TEN.pow(30)};
      // Version 3 has no numbers for these, and the driver no other name.
      var newer = Set.of("date", "duration", "smallint", "time", "tinyint");
      if (spoken == DefaultProtocolVersion.V3) {
        List<Object> known = new ArrayList<>();
        for (int i = 0; i < types.length; i++) if (!newer.contains(types[i])) known.add(values[i]);
        types = Arrays.stream(types).filter(t -> !newer.contains(t)).toArray(String[]::new);
        values = known.toArray();
      }
      StringJoiner columns = new StringJoiner(", "), names = new StringJoiner(", ");
      for (int i = 0; i < types.length; i++) {
        columns.add("c" + i + " " + types[i]);
        names.add("c" + i);
      }
      session.execute("CREATE TABLE java.every (k int PRIMARY KEY, " + columns + ")");
      var table = session.getMetadata().getKeyspace("java").get().getTable("every").get();
      for (int i = 0; i < types.length; i++) {
        String told = table.getColumn("c" + i).get().getType().asCql(true, false);
        check(told.equals(types[i]), told);
      }
      PreparedStatement put = session.prepare("INSERT INTO java.every (k, " + names + ") VALUES (1" + ", ?".repeat(types.length) + ")");
      session.execute(put.bind(values));
      Row row = session.execute("SELECT " + names + " FROM java.every WHERE k = 1").one();
      for (int i = 0; i < types.length; i++) check(values[i].equals(row.getObject(i)), types[i] + ": " + row.getObject(i));

      session.execute("CREATE TABLE java.rows (k int, c int, v text, PRIMARY KEY (k, c))");
      put = session.prepare("INSERT INTO java.rows (k, c, v) VALUES (?, ?, ?)");
      List<CompletionStage<AsyncResultSet>> waiting = new ArrayList<>();
      for (int i = 0; i < 500; i++) waiting.add(session.executeAsync(put.bind(i % 3, i, "v" + i)));
      for (var w : waiting) w.toCompletableFuture().get();
      int seen = 0;
      for (Row ignored : session.execute(SimpleStatement.newInstance("SELECT * FROM java.rows").setPageSize(37))) seen++;
      check(seen == 500, seen + " rows");
      BatchStatementBuilder batch = BatchStatement.builder(DefaultBatchType.LOGGED);
      for (int i = 0; i < 20; i++) batch.addStatement(put.bind(9, i, "b"));
      session.execute(batch.build());
      check(session.execute("SELECT count(*) FROM java.rows WHERE k = 9").one().getLong(0) == 20, "the batch");
      // A value that is not set leaves what is there; version 3 knows none such.
      if (spoken != DefaultProtocolVersion.V3) session.execute(put.boundStatementBuilder().setInt(0, 9).setInt(1, 3).build());
      check("b".equals(session.execute("SELECT v FROM java.rows WHERE k = 9 AND c = 3").one().getString(0)) , "unset");
      ResultSet again = session.execute("INSERT INTO java.rows (k, c, v) VALUES (9, 0, 'x') IF NOT EXISTS");
      check(!again.wasApplied() && "b".equals(again.one().getString("v")), "a condition that does not hold");

      PreparedStatement read = session.prepare("SELECT * FROM java.rows WHERE k = ? AND c = ?");
      check(session.execute(read.bind(9, 1)).one().size() == 3, "columns before");
      session.execute("ALTER TABLE java.rows ADD w int");
      if (spoken == DefaultProtocolVersion.V5) check(session.execute(read.bind(9, 1)).one().size() == 4, "columns after");
      check(session.getMetadata().getKeyspace("java").get().getTable("rows").get().getColumn("w").isPresent(), "the schema after");
      QueryTrace trace = session.execute(SimpleStatement.newInstance("SELECT * FROM java.rows WHERE k = 9").setTracing(true))
          .getExecutionInfo().getQueryTrace();
      check(trace.getEvents().size() >= 2 && trace.getDurationMicros() > 0, trace);
      refused(session, "SELECT * FROM java.nowhere", InvalidQueryException.class);
      refused(session, "SELEKT", SyntaxError.class);
      refused(session, "CREATE TABLE java.rows (k int PRIMARY KEY)", AlreadyExistsException.class);
      System.out.println("java: protocol " + spoken + ", compression " + compression + ": good");
    }
  }

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    conversation(port, null, "none");
    conversation(port, "V4", "none");
    conversation(port, "V3", "none");
  }
}
