package ui
import ("testing";"testing/synctest";"fmt";"github.com/charmbracelet/x/ansi";"os";"strconv")
func TestDump(t *testing.T){
 w,_:=strconv.Atoi(os.Getenv("W")); h,_:=strconv.Atoi(os.Getenv("H"))
 for _,s:=range situations { if n:=os.Getenv("S"); n!="" && n!=s.name {continue}
  synctest.Test(t,func(t *testing.T){ begin(); m:=testModel(w,h); s.make(m); fmt.Printf("=== %s\n%s\n", s.name, ansi.Strip(m.View().Content)) })
 }
}
