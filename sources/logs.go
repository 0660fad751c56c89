package sources

import (
	"context"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

const (
	// LogsTimeout is how long an answer of Loki is waited for.
	LogsTimeout = 30 * time.Second
	// LogsLimit is the limit of a LogQuery that names none.
	LogsLimit = 500
	// MaxLogsLimit is how many lines are asked for at once: Loki refuses more.
	MaxLogsLimit = 5000
)

// Logs is what the console asks of a Loki. It is safe for concurrent use. Each
// page of an answer is waited for as long as the configuration says, or
// LogsTimeout.
type Logs interface {
	// Query asks q; gen is the question's, from Feed.Ask.
	Query(ctx context.Context, gen uint64, q LogQuery) Answer[LogAnswer]
	// Addr is where it is, without user info; empty: the gateway's own.
	Addr() string
	// Told takes what the gateway says now of its own store; of a configured server
	// it does nothing. It may be called while questions are asked.
	Told(api.Source)
}

// LogQuery is one question to Loki.
type LogQuery struct {
	Query string // LogQL
	// Start (inclusive) and End (exclusive); zero: an hour before End, and now.
	Start, End time.Time
	// Limit is how many lines are wanted at most, from the end that Forward says;
	// 0: LogsLimit. More than MaxLogsLimit are asked for by pages, more than
	// MaxLogLines is MaxLogLines.
	Limit int
	// From, if not nil, goes on where an answer to the same question stopped; it
	// is that answer's More.
	From *LogMark
	// Forward wants the oldest lines first, else the newest.
	Forward bool
	// Step is the distance of points of a range query of numbers; 0: Loki's own.
	Step time.Duration
	// Instant evaluates a query of numbers at End alone.
	Instant bool
	// Unparsed, if not empty, is a query of numbers that counts the lines in the
	// range that could not be parsed; asked with it, though not of the gateway's
	// own log, which has none. See LogAnswer.
	Unparsed string
	// Addr is the Loki that Logcli names; empty: it names none.
	Addr string
}

// LogKind is what an answer is made of.
type LogKind string

const (
	LogLines  LogKind = "streams"
	LogVector LogKind = "vector"
	LogMatrix LogKind = "matrix"
	LogScalar LogKind = "scalar"
)

// LogAnswer is what Loki answered.
type LogAnswer struct {
	Query LogQuery // as asked, with all defaults filled in
	Kind  LogKind
	// Rows are the lines of all streams in the order of time that was asked for.
	Rows []LogRow
	// Series are those of a vector or scalar, one point each, or of a matrix.
	Series []LogSeries
	// CutOff says that there are more lines than Limit in the range; More is where
	// they go on, nil where that is not known.
	CutOff bool
	More   *LogMark
	// SearchedBytes is how much was looked through; negative: not told.
	SearchedBytes int64
	// Unparsed counts the lines left out because they could not be parsed;
	// negative: not asked, or not answered.
	Unparsed int64
	// Warnings are Loki's own and what in the answer does not fit; not empty: the
	// answer is partial. Text from outside.
	Warnings []string
}

// Empty reports whether there is nothing in the answer.
func (a *LogAnswer) Empty() bool { return len(a.Rows) == 0 && len(a.Series) == 0 }

// LogRow is one line. Labels and Line are text from outside.
type LogRow struct {
	TS     int64             // unix nanoseconds
	Labels map[string]string // shared between the rows of a stream, never changed
	Line   string
}

// Time is when the line was written.
func (r LogRow) Time() time.Time { return time.Unix(0, r.TS).UTC() }

// LogSeries is one series of numbers, its points in order of time. Labels are
// text from outside.
type LogSeries struct {
	Labels map[string]string
	Points []LogPoint
}

// LogPoint is one point of a LogSeries. Value may be NaN or infinite.
type LogPoint struct {
	At    time.Time
	Value float64
}

// AsksNumbers reports whether a query asks for numbers: one for lines begins
// with the streams that it selects. Of nothing at all it is false.
func AsksNumbers(logql string) bool {
	for line := range strings.SplitSeq(logql, "\n") {
		line = strings.TrimLeft(line, " \t\r(")
		if line != "" && line[0] != '#' {
			return line[0] != '{'
		}
	}
	return false
}
