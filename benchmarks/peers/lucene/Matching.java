import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoubleRange;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.MultiDocValues;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.MatchAllDocsQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopFieldCollector;
import org.apache.lucene.search.TopFieldDocs;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.NumericUtils;

/**
 * Ranked matching by Lucene: subscriptions are documents, an event is a query.
 *
 * <p>One segment, sorted by score and id, so that a search ends with the k-th match. Intervals are a range field (points,
 * "points") or two columns for each attribute that are compared document by document in the order of the score
 * ("columns"); the first events are asked both ways, and the faster way answers the rest. Categories are terms, a term
 * of its own for subscriptions that take any value.
 *
 * <p>Speaks over standard input and output, numbers in big-endian order. First: k, attributes, categories, rows (int);
 * ids (long), scores (double), for each attribute all lower and all upper ends (double); for each category and row a
 * list of accepted codes (length, codes; length -1: any) and a list of refused ones. Then any number of batches: events
 * (int), for each attribute their values (double), for each category their codes (int, -1: unknown). A batch is
 * answered by the number of rows for each event (int), all ids (long) and all scores (double).
 */
public final class Matching {
  private static final Sort ORDER =
      new Sort(new SortField("rank", SortField.Type.LONG), new SortField("id", SortField.Type.LONG));
  private static final int TRIED = 64;
  private static final String ANY = "*";

  private final int k;
  private final int attributes;
  private final int categories;
  private final IndexSearcher searcher;
  private final long[] id;
  private final long[] score;
  private Boolean points;

  private Matching(DataInputStream in, Path directory) throws IOException {
    k = in.readInt();
    attributes = in.readInt();
    categories = in.readInt();
    int rows = in.readInt();
    long[] names = longs(in, rows);
    double[] scores = doubles(in, rows);
    double[][] lo = new double[attributes][];
    double[][] hi = new double[attributes][];
    for (int j = 0; j < attributes; j++) {
      lo[j] = doubles(in, rows);
      hi[j] = doubles(in, rows);
    }
    int[][][] accepted = new int[categories][rows][];
    int[][][] refused = new int[categories][rows][];
    for (int c = 0; c < categories; c++) {
      for (int row = 0; row < rows; row++) {
        accepted[c][row] = list(in);
        refused[c][row] = list(in);
      }
    }
    MMapDirectory files = new MMapDirectory(directory);
    IndexWriterConfig settings = new IndexWriterConfig(new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        throw new UnsupportedOperationException("no field is analyzed");
      }
    });
    settings.setIndexSort(ORDER).setRAMBufferSizeMB(256);
    try (IndexWriter writer = new IndexWriter(files, settings)) {
      double[] low = new double[attributes];
      double[] high = new double[attributes];
      for (int row = 0; row < rows; row++) {
        Document document = new Document();
        document.add(new NumericDocValuesField("id", names[row]));
        document.add(new NumericDocValuesField("rank", -NumericUtils.doubleToSortableLong(scores[row] + 0.0)));
        document.add(new NumericDocValuesField("score", Double.doubleToRawLongBits(scores[row])));
        for (int j = 0; j < attributes; j++) {
          low[j] = lo[j][row] + 0.0;
          high[j] = hi[j][row] + 0.0;
          document.add(new NumericDocValuesField("lo" + j, NumericUtils.doubleToSortableLong(low[j])));
          document.add(new NumericDocValuesField("hi" + j, NumericUtils.doubleToSortableLong(high[j])));
        }
        if (attributes > 0 && attributes <= 4) {
          document.add(new DoubleRange("box", low, high));
        }
        for (int c = 0; c < categories; c++) {
          if (accepted[c][row] == null) {
            document.add(new StringField("in" + c, ANY, Field.Store.NO));
            if (refused[c][row] == null) {
              document.add(new StringField("free" + c, ANY, Field.Store.NO));
            }
          } else {
            for (int code : accepted[c][row]) {
              document.add(new StringField("in" + c, Integer.toString(code), Field.Store.NO));
            }
          }
          if (refused[c][row] != null) {
            for (int code : refused[c][row]) {
              document.add(new StringField("not" + c, Integer.toString(code), Field.Store.NO));
            }
          }
        }
        writer.addDocument(document);
      }
      writer.forceMerge(1);
    }
    DirectoryReader reader = DirectoryReader.open(files);
    searcher = new IndexSearcher(reader);
    searcher.setQueryCache(null);
    id = column(reader, "id");
    score = column(reader, "score");
    if (attributes == 0 || attributes > 4) {
      points = false;
    }
  }

  private Query query(double[] at, int[] codes, boolean byPoints) {
    BooleanQuery.Builder query = new BooleanQuery.Builder();
    if (byPoints) {
      query.add(DoubleRange.newContainsQuery("box", at, at), Occur.FILTER);
    } else {
      for (int j = 0; j < attributes; j++) {
        long value = NumericUtils.doubleToSortableLong(at[j] + 0.0);
        query.add(NumericDocValuesField.newSlowRangeQuery("lo" + j, Long.MIN_VALUE, value), Occur.FILTER);
        query.add(NumericDocValuesField.newSlowRangeQuery("hi" + j, value, Long.MAX_VALUE), Occur.FILTER);
      }
    }
    for (int c = 0; c < categories; c++) {
      if (codes[c] < 0) {
        query.add(new TermQuery(new Term("free" + c, ANY)), Occur.FILTER);
        continue;
      }
      String value = Integer.toString(codes[c]);
      BooleanQuery.Builder either = new BooleanQuery.Builder();
      either.add(new TermQuery(new Term("in" + c, value)), Occur.SHOULD);
      either.add(new TermQuery(new Term("in" + c, ANY)), Occur.SHOULD);
      query.add(either.build(), Occur.FILTER);
      query.add(new TermQuery(new Term("not" + c, value)), Occur.MUST_NOT);
    }
    if (attributes == 0 && categories == 0) {
      query.add(new MatchAllDocsQuery(), Occur.FILTER);
    }
    return query.build();
  }

  private TopFieldDocs ask(double[] at, int[] codes, boolean byPoints) throws IOException {
    TopFieldCollector collector = TopFieldCollector.create(ORDER, k, 1);
    searcher.search(query(at, codes, byPoints), collector);
    return collector.topDocs();
  }

  private void batch(int events, DataInputStream in, DataOutputStream out) throws IOException {
    double[][] at = new double[events][attributes];
    int[][] codes = new int[events][categories];
    for (int j = 0; j < attributes; j++) {
      double[] values = doubles(in, events);
      for (int e = 0; e < events; e++) {
        at[e][j] = values[e];
      }
    }
    for (int c = 0; c < categories; c++) {
      int[] values = integers(in, events);
      for (int e = 0; e < events; e++) {
        codes[e][c] = values[e];
      }
    }
    if (points == null) {
      choose(at, codes);
    }
    int[] documents = new int[events * k];
    int total = 0;
    for (int e = 0; e < events; e++) {
      ScoreDoc[] found = ask(at[e], codes[e], points).scoreDocs;
      out.writeInt(found.length);
      for (ScoreDoc each : found) {
        documents[total++] = each.doc;
      }
    }
    for (int i = 0; i < total; i++) {
      out.writeLong(id[documents[i]]);
    }
    for (int i = 0; i < total; i++) {
      out.writeLong(score[documents[i]]);
    }
    out.flush();
  }

  /** Take the way of looking at intervals that was faster over the first events, once both are compiled. */
  private void choose(double[][] at, int[][] codes) throws IOException {
    long[] least = {Long.MAX_VALUE, Long.MAX_VALUE};
    for (int round = 0; round < 6; round++) {
      for (int way = 0; way < 2; way++) {
        long start = System.nanoTime();
        for (int e = 0; e < Math.min(at.length, TRIED); e++) {
          ask(at[e], codes[e], way == 1);
        }
        least[way] = Math.min(least[way], System.nanoTime() - start);
      }
    }
    points = least[1] < least[0];
  }

  /** A column by document, which there is for all of them. */
  private static long[] column(DirectoryReader reader, String name) throws IOException {
    NumericDocValues values = MultiDocValues.getNumericValues(reader, name);
    long[] column = new long[reader.maxDoc()];
    for (int document = values.nextDoc(); document < column.length; document = values.nextDoc()) {
      column[document] = values.longValue();
    }
    return column;
  }

  private static long[] longs(DataInputStream in, int count) throws IOException {
    long[] values = new long[count];
    for (int i = 0; i < count; i++) {
      values[i] = in.readLong();
    }
    return values;
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

  private static int[] list(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length < 0 ? null : integers(in, length);
  }

  public static void main(String[] arguments) throws IOException {
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20));
    Matching matching = new Matching(in, Path.of(arguments[0]));
    out.writeInt(0);
    out.flush();
    while (true) {
      int events;
      try {
        events = in.readInt();
      } catch (EOFException ended) {
        return;
      }
      matching.batch(events, in, out);
    }
  }
}
