package breaker

// lostConnections remembers the last connections that carried many attempts
// and broke. Such a loss is one piece of evidence, however many attempts end
// with it: the first is booked, the others are neutral and report what it did.
type lostConnections struct {
	lost [8]lostConnection
	next int
}

type lostConnection struct {
	id     uint64
	report Report
}

// find returns what the first attempt that connection id took along reported.
func (l *lostConnections) find(id uint64) (Report, bool) {
	for i := range l.lost {
		if l.lost[i].id == id {
			return l.lost[i].report, true
		}
	}
	return Report{}, false
}

func (l *lostConnections) add(id uint64, r Report) {
	l.lost[l.next] = lostConnection{id: id, report: r}
	l.next = (l.next + 1) % len(l.lost)
}
