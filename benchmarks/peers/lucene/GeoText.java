import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.FieldInvertState;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.LogByteSizeMergePolicy;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.BulkScorer;
import org.apache.lucene.search.CollectionStatistics;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.Scorable;
import org.apache.lucene.search.ScoreMode;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TermStatistics;
import org.apache.lucene.search.similarities.Similarity;
import org.apache.lucene.store.MMapDirectory;

/**
 * Geo-text top-k by Lucene: subscriptions are documents, a message is a query, and lists of up to kmax are kept.
 *
 * <p>A message is a disjunction of its terms. Lucene adds up what each subscription has in common with it, in float; who
 * comes near the last of its list is scored again exactly. An expired message is found in the lists by links of its own. A
 * list with fewer than k is filled up by a search over a second index, of the messages, those to come included and cut
 * off by position, so that nothing is charged for keeping that index up. Both have one segment, documents in the order
 * of the rows.
 *
 * <p>Speaks over standard input and output, numbers in big-endian order. First: k, kmax, subscriptions, messages, terms,
 * oldest and next message (int), the distance that counts as 1 (double), the idf of each term (double); of subscriptions
 * and then of messages: starts of the vectors, terms (int), weights, x, y (double); of subscriptions alpha (double), how
 * many messages each holds (int), the score to reach (double), messages (int) and scores (double), kmax each. Then a
 * count: so many messages are taken in, answered by how many lists were filled up (int); or -1 - row: answered by the
 * size of that list (int) and its scores (double), k at most.
 */
public final class GeoText {
  private static final float NEAR = 1e-5f; // more than a sum of floats can be wrong
  private static final String TERMS = "terms";

  private final int k;
  private final int most;
  private final double diagonal;
  private final double[] idf;
  private final Texts interests;
  private final Texts messages;
  private final double[] alpha;
  private final int[] size;
  private final double[] bar;
  private final int[] item;
  private final double[] score;
  private final int[] head;
  private int[] owner;
  private int[] follows;
  private int used;
  private int oldest;
  private int next;
  private int filled;
  private final IndexSearcher readers;
  private final IndexSearcher window;

  /** Vectors one behind the other, and places. */
  private record Texts(int[] start, int[] term, double[] weight, double[] x, double[] y) {
    static Texts read(DataInputStream in, int rows) throws IOException {
      int[] start = integers(in, rows + 1);
      int entries = start[rows];
      return new Texts(start, integers(in, entries), doubles(in, entries), doubles(in, rows), doubles(in, rows));
    }
  }

  /** What a subscription adds to every term that it shares is its norm; the rest is in the boost. */
  private static final class Cosine extends Similarity {
    private float norm = 1f;

    @Override
    public long computeNorm(FieldInvertState state) {
      return Float.floatToRawIntBits(norm);
    }

    @Override
    public SimScorer scorer(float boost, CollectionStatistics collection, TermStatistics... terms) {
      return new SimScorer() {
        @Override
        public float score(float frequency, long norm) {
          return boost * Float.intBitsToFloat((int) norm);
        }
      };
    }
  }

  private GeoText(DataInputStream in, Path directory) throws IOException {
    k = in.readInt();
    most = in.readInt();
    int subscriptions = in.readInt();
    int count = in.readInt();
    int terms = in.readInt();
    oldest = in.readInt();
    next = in.readInt();
    diagonal = in.readDouble();
    idf = doubles(in, terms);
    interests = Texts.read(in, subscriptions);
    messages = Texts.read(in, count);
    alpha = doubles(in, subscriptions);
    size = integers(in, subscriptions);
    bar = doubles(in, subscriptions);
    item = integers(in, subscriptions * most);
    score = doubles(in, subscriptions * most);
    head = new int[count];
    Arrays.fill(head, -1);
    owner = new int[2 * item.length];
    follows = new int[2 * item.length];
    for (int row = 0; row < subscriptions; row++) {
      linkAll(row);
    }
    readers = index(directory.resolve("subscriptions"), interests, true);
    window = index(directory.resolve("messages"), messages, false);
  }

  private IndexSearcher index(Path path, Texts texts, boolean norms) throws IOException {
    Cosine cosine = new Cosine();
    IndexWriterConfig settings = new IndexWriterConfig(new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        throw new UnsupportedOperationException("no field is analyzed");
      }
    });
    settings.setSimilarity(cosine).setRAMBufferSizeMB(256).setMergePolicy(new LogByteSizeMergePolicy());
    FieldType kind = new FieldType();
    kind.setIndexOptions(IndexOptions.DOCS);
    kind.setTokenized(false);
    kind.setOmitNorms(!norms);
    kind.freeze();
    MMapDirectory files = new MMapDirectory(path);
    try (IndexWriter writer = new IndexWriter(files, settings)) {
      for (int row = 0; row + 1 < texts.start.length; row++) {
        Document document = new Document();
        int first = texts.start[row];
        for (int at = first; at < texts.start[row + 1]; at++) {
          document.add(new Field(TERMS, Integer.toString(texts.term[at]), kind));
        }
        if (first < texts.start[row + 1]) {
          cosine.norm = (float) (texts.weight[first] / idf[texts.term[first]]);
        }
        writer.addDocument(document);
      }
      writer.forceMerge(1);
    }
    IndexSearcher searcher = new IndexSearcher(DirectoryReader.open(files));
    searcher.setQueryCache(null);
    searcher.setSimilarity(cosine);
    return searcher;
  }

  /** Take so many messages in, each after the oldest one has gone. */
  private int turn(int count) throws IOException {
    filled = 0;
    for (int each = 0; each < count; each++) {
      expire();
      arrive(next++);
    }
    return filled;
  }

  private void arrive(int message) throws IOException {
    BooleanQuery.Builder query = new BooleanQuery.Builder();
    for (int at = messages.start[message]; at < messages.start[message + 1]; at++) {
      int term = messages.term[at];
      query.add(
          new BoostQuery(
              new TermQuery(new Term(TERMS, Integer.toString(term))), (float) (messages.weight[at] * idf[term])),
          Occur.SHOULD);
    }
    double east = messages.x[message];
    double north = messages.y[message];
    search(readers, query.build(), ScoreMode.COMPLETE, 0, alpha.length, new LeafCollector() {
      private Scorable scorer;

      @Override
      public void setScorer(Scorable given) {
        scorer = given;
      }

      @Override
      public void collect(int row) throws IOException {
        double near = alpha[row] * (1.0 - distance(interests.x[row] - east, interests.y[row] - north) / diagonal);
        if (near + (1.0 - alpha[row]) * scorer.score() + NEAR >= bar[row]) {
          double exact = near + (1.0 - alpha[row]) * common(row, message);
          if (exact >= bar[row]) {
            keep(row, message, exact);
            link(message, row);
          }
        }
      }
    });
  }

  private void expire() throws IOException {
    int gone = oldest++;
    for (int at = head[gone]; at >= 0; at = follows[at]) {
      int row = owner[at];
      int place = row * most;
      int end = place + size[row];
      while (place < end && item[place] != gone) {
        place++;
      }
      if (place == end) {
        continue; // it has been dropped
      }
      System.arraycopy(item, place + 1, item, place, end - place - 1);
      System.arraycopy(score, place + 1, score, place, end - place - 1);
      size[row]--;
      if (size[row] < k && bar[row] > Double.NEGATIVE_INFINITY) {
        fill(row);
      }
    }
  }

  /** Make a list anew from the window. */
  private void fill(int row) throws IOException {
    filled++;
    size[row] = 0;
    bar[row] = Double.NEGATIVE_INFINITY;
    BooleanQuery.Builder query = new BooleanQuery.Builder();
    for (int at = interests.start[row]; at < interests.start[row + 1]; at++) {
      query.add(new TermQuery(new Term(TERMS, Integer.toString(interests.term[at]))), Occur.SHOULD);
    }
    double x = interests.x[row];
    double y = interests.y[row];
    search(window, query.build(), ScoreMode.COMPLETE_NO_SCORES, oldest, next, new LeafCollector() {
      @Override
      public void setScorer(Scorable given) {}

      @Override
      public void collect(int message) {
        double near = alpha[row] * (1.0 - distance(x - messages.x[message], y - messages.y[message]) / diagonal);
        if (near + (1.0 - alpha[row]) >= bar[row]) {
          double exact = near + (1.0 - alpha[row]) * common(row, message);
          if (exact >= bar[row]) {
            keep(row, message, exact);
          }
        }
      }
    });
    linkAll(row);
  }

  private static void search(
      IndexSearcher searcher, Query query, ScoreMode mode, int low, int high, LeafCollector collector)
      throws IOException {
    LeafReaderContext leaf = searcher.getIndexReader().leaves().get(0);
    BulkScorer scorer = searcher.createWeight(searcher.rewrite(query), mode, 1f).bulkScorer(leaf);
    if (scorer != null) {
      scorer.score(collector, null, low, high);
    }
  }

  private double common(int row, int message) {
    double sum = 0.0;
    int end = messages.start[message + 1];
    for (int at = interests.start[row]; at < interests.start[row + 1]; at++) {
      int place = Arrays.binarySearch(messages.term, messages.start[message], end, interests.term[at]);
      if (place >= 0) {
        sum += messages.weight[place] * interests.weight[at];
      }
    }
    return sum;
  }

  private static double distance(double east, double north) {
    return Math.sqrt(east * east + north * north);
  }

  /** Put a message in its place in a list; of equal scores the newer comes first. */
  private void keep(int row, int message, double worth) {
    int first = row * most;
    int at = first + size[row];
    if (size[row] == most) {
      at--;
      if (worth < score[at] || worth == score[at] && message < item[at]) {
        return;
      }
    } else {
      size[row]++;
    }
    while (at > first && (score[at - 1] < worth || score[at - 1] == worth && item[at - 1] < message)) {
      item[at] = item[at - 1];
      score[at] = score[at - 1];
      at--;
    }
    item[at] = message;
    score[at] = worth;
    if (size[row] == most) {
      bar[row] = score[first + most - 1];
    }
  }

  private void link(int message, int row) {
    if (used == owner.length) {
      owner = Arrays.copyOf(owner, 2 * used);
      follows = Arrays.copyOf(follows, 2 * used);
    }
    owner[used] = row;
    follows[used] = head[message];
    head[message] = used++;
  }

  private void linkAll(int row) {
    for (int place = 0; place < size[row]; place++) {
      link(item[row * most + place], row);
    }
  }

  private void best(int row, DataOutputStream out) throws IOException {
    int many = Math.min(k, size[row]);
    out.writeInt(many);
    for (int place = 0; place < many; place++) {
      out.writeDouble(score[row * most + place]);
    }
    out.flush();
  }

  private static double[] doubles(DataInputStream in, int count) throws IOException {
    double[] values = new double[count];
    for (int i = 0; i < count; i++) {
      values[i] = in.readDouble();
    }
    return values;
  }

  private static int[] integers(DataInputStream in, int count) throws IOException {
    int[] values = new int[count];
    for (int i = 0; i < count; i++) {
      values[i] = in.readInt();
    }
    return values;
  }

  public static void main(String[] arguments) throws IOException {
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20));
    GeoText kept = new GeoText(in, Path.of(arguments[0]));
    out.writeInt(0);
    out.flush();
    while (true) {
      int asked;
      try {
        asked = in.readInt();
      } catch (EOFException ended) {
        return;
      }
      if (asked < 0) {
        kept.best(-1 - asked, out);
      } else {
        out.writeInt(kept.turn(asked));
        out.flush();
      }
    }
  }
}
