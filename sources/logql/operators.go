package logql

import "math"

// precedence of binary operators; 0: none.
func precedence(k kind) int {
	switch k {
	case "or":
		return 1
	case "and", "unless":
		return 2
	case "==", "!=", ">", ">=", "<", "<=":
		return 3
	case "+", "-":
		return 4
	case "*", "/", "%":
		return 5
	case "^":
		return 6
	}
	return 0
}

func isComparison(op string) bool { return precedence(kind(op)) == 3 }
func isLogical(op string) bool    { return op == "or" || op == "and" || op == "unless" }

// arith works out an arithmetic operation, and whether a comparison holds.
// Division by zero is NaN, as Loki has it.
func arith(op string, a, b float64) (v float64, ok bool) {
	switch op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		if b == 0 {
			return math.NaN(), true
		}
		return a / b, true
	case "%":
		if b == 0 {
			return math.NaN(), true
		}
		return math.Mod(a, b), true
	case "^":
		return math.Pow(a, b), true
	}
	return a, compare(op, a, b)
}
