package archtest

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// function is a declared function, a function literal, what a go statement runs, or a request.
type function struct {
	name      string
	outer     *function // the declared function that it is in; itself for that one
	signature *types.Signature
	calls     []edge
	// open is why it may be called from outside of the graph, or when a call that has returned ended long ago; or "".
	open       string
	operations map[string]bool // of a request
}

// edge is a call.
type edge struct {
	to *function
	at token.Pos
}

// graph has the calls of some packages, also those of function values: where a function value goes is followed through variables,
// fields, parameters and results. A function that takes another one and calls it itself is seen through: its caller makes the call.
type graph struct {
	packages []*typed
	// request returns the node of a function that sends a request, or nil; call is nil for a function value.
	request func(p *typed, f *types.Func, call *ast.CallExpr) *function
	// alike returns the requests that a method of an interface may be.
	alike func(method *types.Func) []*function
	// recorders are parameters. What they hold is recorded when it is called, and such a call is no edge.
	recorders map[*types.Var]bool
	recorded  map[*function]bool

	own      map[*types.Package]bool
	nodes    map[any]*function // by *types.Func or *ast.FuncLit
	all      []*function
	params   map[*types.Var]*function // of the graph's functions
	assigned map[*types.Var]bool      // parameters that are assigned to
	runs     map[*types.Var]bool      // parameters that their function calls itself
	held     map[*types.Var]map[*function]bool
	unknown  map[*function]*function // by the declared function whose function values escape
	named    []*types.Named
	seen     map[seenEdge]bool
	steps    []func() // repeated until nothing changes
	last     []func() // after that
	changed  bool
}

type seenEdge struct {
	from, to *function
	at       token.Pos
}

// newGraph returns a graph of the packages. Types are all whose methods an interface of the graph may mean.
func newGraph(packages []*typed, named []*types.Named) *graph {
	g := &graph{
		packages: packages, named: named, recorders: map[*types.Var]bool{}, recorded: map[*function]bool{}, own: map[*types.Package]bool{},
		nodes: map[any]*function{}, params: map[*types.Var]*function{}, assigned: map[*types.Var]bool{}, runs: map[*types.Var]bool{},
		held: map[*types.Var]map[*function]bool{}, unknown: map[*function]*function{}, seen: map[seenEdge]bool{},
	}
	for _, p := range packages {
		g.own[p.types] = true
		for _, file := range p.files {
			for _, decl := range file.Decls {
				g.declare(p, decl)
			}
		}
	}
	return g
}

// declare adds the functions of a declaration.
func (g *graph) declare(p *typed, decl ast.Decl) {
	outer := &function{name: p.types.Name() + ".init", open: "it is run at the start"}
	if f, ok := decl.(*ast.FuncDecl); ok {
		object := p.info.Defs[f.Name].(*types.Func)
		outer = &function{name: nameOf(object), signature: object.Signature()}
		if f.Name.IsExported() || f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main") {
			outer.open = "it is exported"
		}
		g.nodes[object] = outer
	}
	outer.outer = outer
	g.add(outer)
	g.nodes[decl] = outer
	ast.Inspect(decl, func(node ast.Node) bool {
		if literal, ok := node.(*ast.FuncLit); ok {
			signature, _ := p.info.TypeOf(literal).(*types.Signature)
			g.nodes[literal] = &function{name: "a function literal of " + outer.name, outer: outer, signature: signature}
			g.add(g.nodes[literal])
		}
		return true
	})
}

func (g *graph) add(f *function) {
	g.all = append(g.all, f)
	if f.signature != nil {
		for v := range f.signature.Params().Variables() {
			g.params[v] = f
		}
	}
}

// solve finds all calls.
func (g *graph) solve() {
	for _, p := range g.packages {
		for _, file := range p.files {
			for _, decl := range file.Decls {
				g.walk(p, g.nodes[decl], decl)
			}
		}
	}
	for g.changed = true; g.changed; {
		g.changed = false
		for _, step := range g.steps {
			step()
		}
	}
	for _, step := range g.last {
		step()
	}
	for _, f := range g.all {
		slices.SortFunc(f.calls, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.to.name, b.to.name)) })
	}
}

// walk reads the statements that a function has.
func (g *graph) walk(p *typed, in *function, root ast.Node) {
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			g.walk(p, g.nodes[n], n.Body)
			return false
		case *ast.GoStmt:
			g.call(p, g.goroutine(in), n.Call)
			for _, part := range append([]ast.Expr{n.Call.Fun}, n.Call.Args...) {
				g.walk(p, in, part)
			}
			return false
		case *ast.CallExpr:
			g.call(p, in, n)
		case *ast.AssignStmt:
			g.assign(p, in, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			lhs := make([]ast.Expr, len(n.Names))
			for i, name := range n.Names {
				lhs[i] = name
			}
			g.assign(p, in, lhs, n.Values)
		case *ast.RangeStmt:
			g.rangeOver(p, in, n)
		case *ast.SendStmt:
			g.flow(p, in, p.variable(n.Chan), p.info.TypeOf(n.Chan), n.Value, 0)
		case *ast.CompositeLit:
			g.composite(p, in, n)
		case *ast.ReturnStmt:
			g.result(p, in, n)
		}
		return true
	})
}

func (g *graph) goroutine(in *function) *function {
	f := &function{name: "a goroutine of " + in.outer.name, outer: in.outer, open: "it runs on its own"}
	g.all = append(g.all, f)
	return f
}

func (g *graph) step(step func()) { g.steps = append(g.steps, step) }

// assign follows an assignment.
func (g *graph) assign(p *typed, in *function, lhs, rhs []ast.Expr) {
	for i, to := range lhs {
		from, index := ast.Expr(nil), 0
		switch {
		case len(rhs) == len(lhs):
			from = rhs[i]
		case len(rhs) == 1:
			from, index = rhs[0], i
		default:
			continue // a declaration without values
		}
		v := p.variable(to)
		if v != nil && g.params[v] != nil {
			g.assigned[v] = true
		}
		if name, ok := to.(*ast.Ident); ok && name.Name == "_" {
			continue
		}
		g.flow(p, in, v, p.info.TypeOf(to), from, index)
	}
}

func (g *graph) rangeOver(p *typed, in *function, n *ast.RangeStmt) {
	if _, isIterator := p.info.TypeOf(n.X).Underlying().(*types.Signature); isIterator {
		g.step(func() { g.invoke(p, in, n.X, n.For) })
	}
	for _, to := range []ast.Expr{n.Key, n.Value} {
		if to != nil {
			g.flow(p, in, p.variable(to), p.info.TypeOf(to), n.X, 0)
		}
	}
}

// composite follows the values of the fields of a struct.
func (g *graph) composite(p *typed, in *function, n *ast.CompositeLit) {
	t := p.info.TypeOf(n).Underlying()
	if pointer, ok := t.(*types.Pointer); ok { // an element &T{} without its type
		t = pointer.Elem().Underlying()
	}
	structure, ok := t.(*types.Struct)
	if !ok {
		return
	}
	for i, value := range n.Elts {
		var field *types.Var
		if pair, ok := value.(*ast.KeyValueExpr); ok {
			field, value = p.variable(pair.Key), pair.Value
		} else {
			field = structure.Field(i).Origin()
		}
		g.flow(p, in, field, field.Type(), value, 0)
	}
}

func (g *graph) result(p *typed, in *function, n *ast.ReturnStmt) {
	if in.signature == nil {
		return
	}
	results := in.signature.Results()
	for i := range results.Len() {
		from, index := ast.Expr(nil), 0
		switch len(n.Results) {
		case results.Len():
			from = n.Results[i]
		case 1:
			from, index = n.Results[0], i
		default:
			continue // of named results
		}
		g.flow(p, in, results.At(i), results.At(i).Type(), from, index)
	}
	if in.open != "" {
		g.step(func() {
			for v := range results.Variables() {
				for f := range g.held[v] {
					g.escape(in, f, n.Pos())
				}
			}
		})
	}
}

// escape notes that a function value goes where it cannot be followed: it may be called at any time.
func (g *graph) escape(in, f *function, at token.Pos) {
	if g.unknown[in.outer] == nil {
		g.unknown[in.outer] = &function{name: "unknown code that gets a function from " + in.outer.name, outer: in.outer, open: "it may run at any time"}
		g.all = append(g.all, g.unknown[in.outer])
	}
	g.edge(g.unknown[in.outer], f, at)
}

// flow notes that a variable gets a value: a result of an expression.
func (g *graph) flow(p *typed, in *function, to *types.Var, t types.Type, from ast.Expr, index int) {
	if !hasFunctions(p.info.TypeOf(from)) {
		return
	}
	isHidden := to == nil || !g.own[to.Pkg()] || t != nil && types.IsInterface(t) && !isTypeParam(t)
	g.step(func() {
		for f := range g.eval(p, from, index) {
			if isHidden {
				g.escape(in, f, from.Pos())
			} else {
				g.hold(to, f)
			}
		}
	})
}

func (g *graph) hold(v *types.Var, f *function) {
	if g.held[v] == nil {
		g.held[v] = map[*function]bool{}
	}
	if !g.held[v][f] {
		g.held[v][f], g.changed = true, true
	}
}

func (g *graph) edge(from, to *function, at token.Pos) {
	if key := (seenEdge{from, to, at}); !g.seen[key] {
		g.seen[key], g.changed = true, true
		from.calls = append(from.calls, edge{to, at})
	}
}

// targets are the functions of the graph and the requests that a function is, or that an interface method may be.
func (g *graph) targets(p *typed, f *types.Func, call *ast.CallExpr) []*function {
	if r := g.request(p, f, call); r != nil {
		return []*function{r}
	}
	if known := g.nodes[f]; known != nil {
		return []*function{known}
	}
	recv := f.Signature().Recv()
	if recv == nil || !g.own[f.Pkg()] {
		return nil
	}
	of, ok := recv.Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	found := g.alike(f)
	for _, named := range g.named {
		pointer := types.NewPointer(named)
		if types.IsInterface(named) || named.TypeParams().Len() > 0 || !types.Implements(pointer, of) {
			continue
		}
		method, _, _ := types.LookupFieldOrMethod(pointer, false, f.Pkg(), f.Name())
		if m, ok := method.(*types.Func); ok && m != f {
			found = append(found, g.targets(p, m.Origin(), call)...)
		}
	}
	return found
}

// eval returns the functions that an expression may be, or that its elements may be.
func (g *graph) eval(p *typed, expr ast.Expr, index int) map[*function]bool {
	switch e := ast.Unparen(expr).(type) {
	case *ast.FuncLit:
		return map[*function]bool{g.nodes[e]: true}
	case *ast.Ident, *ast.SelectorExpr:
		if f := p.static(e); f != nil {
			return g.value(p, f)
		}
		return g.held[p.variable(e)]
	case *ast.IndexExpr:
		if f := p.static(e); f != nil {
			return g.value(p, f)
		}
		return g.eval(p, e.X, 0)
	case *ast.IndexListExpr:
		return g.eval(p, e.X, 0)
	case *ast.StarExpr:
		return g.eval(p, e.X, 0)
	case *ast.UnaryExpr:
		return g.eval(p, e.X, 0)
	case *ast.SliceExpr:
		return g.eval(p, e.X, 0)
	case *ast.CompositeLit:
		return g.union(p, e.Elts)
	case *ast.KeyValueExpr:
		return g.eval(p, e.Value, 0)
	case *ast.CallExpr:
		return g.resultOf(p, e, index)
	}
	return nil
}

func (g *graph) union(p *typed, list []ast.Expr) map[*function]bool {
	all := map[*function]bool{}
	for _, expr := range list {
		if pair, ok := expr.(*ast.KeyValueExpr); ok {
			expr = pair.Value
		}
		if !hasFunctions(p.info.TypeOf(expr)) {
			continue
		}
		for f := range g.eval(p, expr, 0) {
			all[f] = true
		}
	}
	return all
}

// value is a function as a value.
func (g *graph) value(p *typed, f *types.Func) map[*function]bool {
	found := map[*function]bool{}
	for _, target := range g.targets(p, f, nil) {
		found[target] = true
	}
	return found
}

// resultOf returns the functions that a call returns. One outside of the graph may return its arguments.
func (g *graph) resultOf(p *typed, call *ast.CallExpr, index int) map[*function]bool {
	called := g.called(p, call)
	all := map[*function]bool{}
	isKnown := false
	for target := range called {
		if target.signature == nil || index >= target.signature.Results().Len() {
			continue
		}
		isKnown = true
		for f := range g.held[target.signature.Results().At(index)] {
			all[f] = true
		}
	}
	if isKnown {
		return all
	}
	return g.union(p, call.Args)
}

// called returns the functions that a call may run.
func (g *graph) called(p *typed, call *ast.CallExpr) map[*function]bool {
	fun := ast.Unparen(call.Fun)
	if tv := p.info.Types[fun]; tv.IsType() || tv.IsBuiltin() {
		return nil
	}
	f := p.static(fun)
	if f == nil {
		return g.eval(p, fun, 0)
	}
	found := map[*function]bool{}
	for _, target := range g.targets(p, f, call) {
		found[target] = true
	}
	return found
}

// call follows a call and its arguments.
func (g *graph) call(p *typed, in *function, call *ast.CallExpr) {
	fun := ast.Unparen(call.Fun)
	tv := p.info.Types[fun]
	if tv.IsBuiltin() {
		return
	}
	if tv.IsType() {
		g.flowToInterface(p, in, tv.Type, call.Args[0])
		return
	}
	f := p.static(fun)
	if f == nil {
		g.step(func() {
			g.invoke(p, in, fun, call.Pos())
			for target := range g.eval(p, fun, 0) {
				g.pass(p, in, call, target)
			}
		})
		g.last = append(g.last, func() {
			if len(g.eval(p, fun, 0)) == 0 {
				for f := range g.union(p, call.Args) {
					g.escape(in, f, call.Pos())
				}
			}
		})
		return
	}
	targets := g.targets(p, f, call)
	for _, target := range targets {
		g.edge(in, target, call.Pos())
		g.step(func() { g.pass(p, in, call, target) })
	}
	if len(targets) > 0 {
		return
	}
	runner := in
	if name := f.Name(); name == "AfterFunc" || name == "Go" {
		runner = g.goroutine(in)
	}
	for _, arg := range call.Args {
		if hasFunctions(p.info.TypeOf(arg)) {
			g.step(func() { g.invoke(p, runner, arg, arg.Pos()) })
		}
	}
}

func (g *graph) flowToInterface(p *typed, in *function, t types.Type, from ast.Expr) {
	if types.IsInterface(t) {
		g.flow(p, in, nil, t, from, 0)
	}
}

// pass gives the arguments of a call to a function.
func (g *graph) pass(p *typed, in *function, call *ast.CallExpr, target *function) {
	if target.signature == nil {
		return
	}
	params, args := target.signature.Params(), call.Args
	if called, ok := p.info.TypeOf(call.Fun).Underlying().(*types.Signature); ok && called.Params().Len() > params.Len() && len(args) > 0 {
		args = args[1:] // a method expression
	}
	for i := range max(len(args), params.Len()) {
		from, index := ast.Expr(nil), 0
		switch {
		case len(args) == 1 && params.Len() > 1:
			from, index = args[0], i
		case i < len(args):
			from = args[i]
		default:
			continue // no variadic arguments
		}
		if params.Len() == 0 || !hasFunctions(p.info.TypeOf(from)) {
			continue
		}
		to := params.At(min(i, params.Len()-1))
		for f := range g.eval(p, from, index) {
			if types.IsInterface(to.Type()) && !isTypeParam(to.Type()) {
				g.escape(in, f, from.Pos())
			}
			g.hold(to, f)
		}
		if g.runs[to] {
			g.invoke(p, in, from, call.Pos())
		}
	}
}

// invoke notes that a function calls the value of an expression.
func (g *graph) invoke(p *typed, in *function, expr ast.Expr, at token.Pos) {
	name, isName := ast.Unparen(expr).(*ast.Ident)
	var v *types.Var
	if isName {
		v = p.variable(name)
	}
	switch {
	case v != nil && g.recorders[v]:
		for f := range g.held[v] {
			g.recorded[f] = true
		}
	case v != nil && g.params[v] == in && !g.assigned[v]:
		if !g.runs[v] {
			g.runs[v], g.changed = true, true
		}
	default:
		for f := range g.eval(p, expr, 0) {
			g.edge(in, f, at)
		}
	}
}

// exposed returns the functions that may run outside of recorded ones, each with its caller on the shortest way from a function that
// may be called from outside of the graph. A function without a known call is one of them.
func (g *graph) exposed() map[*function]*function {
	from := map[*function]*function{}
	reach := func(queue []*function) {
		for ; len(queue) > 0; queue = queue[1:] {
			for _, call := range queue[0].calls {
				if _, known := from[call.to]; !known {
					from[call.to] = queue[0]
					queue = append(queue, call.to)
				}
			}
		}
	}
	open := slices.DeleteFunc(slices.Clone(g.all), func(f *function) bool { return f.open == "" })
	for _, f := range open {
		from[f] = nil
	}
	reach(open)
	covered := map[*function]bool{}
	queue := []*function{}
	for f := range g.recorded {
		covered[f] = true
		queue = append(queue, f)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, call := range queue[0].calls {
			if !covered[call.to] {
				covered[call.to] = true
				queue = append(queue, call.to)
			}
		}
	}
	for _, f := range g.all {
		if _, known := from[f]; !known && !covered[f] {
			f.open, from[f] = "it has no known call", nil
			reach([]*function{f})
		}
	}
	return from
}

// pathTo names the functions that lead to one, and why the first may run. A function literal is shown where it was written.
func pathTo(from map[*function]*function, f, called *function) string {
	names := []string{called.name}
	for seen := map[*function]bool{}; ; {
		seen[f] = true
		names = append(names, f.name)
		before := from[f]
		if _, isExposed := from[f.outer]; isExposed && f != f.outer {
			before = f.outer
		}
		if before == nil || seen[before] {
			break
		}
		f = before
	}
	slices.Reverse(names)
	if f.open != "" {
		names[0] += " (" + f.open + ")"
	}
	return strings.Join(names, " -> ")
}
