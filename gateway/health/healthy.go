package health

import "fmt"

// healthy is where every upstream starts. It leaves when a signal turns red,
// which costs it nothing yet.
type healthy struct{}

func (healthy) wish(*Machine, *Facts) Wish { return Wish{} }

func (healthy) explain(m *Machine, _ *Facts) string {
	green := 0
	for i := range m.signals {
		if m.signals[i].Colour == Green {
			green++
		}
	}
	switch {
	case Blind(m.signals):
		return "as far as anybody knows: no signal has anything to go by"
	case green == len(m.signals):
		return "every signal is green"
	}
	return fmt.Sprintf("%d of %d signals green, the others unknown", green, len(m.signals))
}
