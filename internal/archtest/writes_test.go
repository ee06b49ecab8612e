package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Writes says where requests that change something may be sent: in functions that a journal has recorded.
type Writes struct {
	// Senders are the packages, as patterns, whose functions send requests. Which of them change something is read from their source.
	Senders []string
	// Writers are the packages, as patterns, whose functions are checked, except those of Senders.
	Writers []string
	// Hooks are the packages whose interfaces and function fields the caller implements. Those that take a context change
	// something outside, except those of Reads.
	Hooks []string
	// Reads are methods and fields of Hooks that change nothing, such as Hypervisor.Domain.
	Reads []string
	// Ledger is the package with the types Journal, Effect and State.
	Ledger string
	// Recorders are the methods of Journal that record an effect and then run a function.
	Recorders []string
	// Transition is the only function that changes the state of an effect, and Outcome the only one that says what an answer
	// means for it.
	Transition, Outcome string
	// Once are requests that one function sends: the name of the method, or of Cyborg's operation.
	Once []string
	// Exceptions are the findings that may stand.
	Exceptions []Exception
}

// checking is one check of packages.
type checking struct {
	Writes
	fset     *token.FileSet
	senders  map[*types.Package]*typed
	ledger   *types.Package
	bodies   map[*types.Func]body
	sent     map[*types.Func]map[string]bool // the operations that a sender sends
	requests map[any]*function               // by *types.Func or *types.Var
	asked    map[types.Object]bool           // of the senders, by Outcome
	read     map[string]bool                 // of Reads
	findings []Finding
}

// body is what a sender's function has: the operations that it sends itself, and the functions that it names.
type body struct {
	operations []string
	names      []*types.Func
}

// Check returns where packages break the rules, sorted by position.
func (w Writes) Check(packages []*typed) []Finding {
	c := &checking{
		Writes: w, senders: map[*types.Package]*typed{}, bodies: map[*types.Func]body{},
		sent: map[*types.Func]map[string]bool{}, requests: map[any]*function{}, asked: map[types.Object]bool{}, read: map[string]bool{},
	}
	var writers, hooks []*typed
	var named []*types.Named
	for _, p := range packages {
		c.fset = p.fset
		isSender := c.match(w.Senders, p)
		isWriter := !isSender && c.match(w.Writers, p)
		switch {
		case isSender:
			c.senders[p.types] = p
			c.readSender(p)
		case isWriter:
			writers = append(writers, p)
		}
		if p.dir == w.Ledger {
			c.ledger = p.types
		}
		if slices.Contains(w.Hooks, p.dir) {
			hooks = append(hooks, p)
		}
		if isSender || isWriter {
			named = append(named, p.named()...)
		}
	}
	if c.ledger == nil {
		c.missing("package " + w.Ledger)
		return c.findings
	}
	g := newGraph(writers, named)
	g.request, g.alike = c.request, c.alike
	for _, p := range hooks {
		c.readHooks(p, g)
	}
	for _, name := range w.Reads {
		if !c.read[name] {
			c.missing("hook " + name)
		}
	}
	c.readRecorders(g)
	g.solve()
	c.checkCalls(g)
	c.checkOnce(g)
	c.readOutcome(writers)
	for _, p := range writers {
		c.checkStates(p)
		c.checkOutcomes(p)
	}
	findings := Rules{Exceptions: w.Exceptions}.except(c.findings)
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Position, b.Position), strings.Compare(a.Text, b.Text))
	})
	return slices.Compact(findings)
}

func (c *checking) match(patterns []string, p *typed) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, p.dir) })
}

// named returns the types of a package.
func (p *typed) named() []*types.Named {
	var found []*types.Named
	for _, object := range p.info.Defs {
		if name, ok := object.(*types.TypeName); ok && !name.IsAlias() {
			if named, ok := name.Type().(*types.Named); ok {
				found = append(found, named)
			}
		}
	}
	slices.SortFunc(found, func(a, b *types.Named) int { return cmp.Compare(a.Obj().Pos(), b.Obj().Pos()) })
	return found
}

func (c *checking) find(at token.Pos, rule, subject, format string, args ...any) {
	position := c.fset.Position(at)
	c.findings = append(c.findings, Finding{
		Position: fmt.Sprintf("%s:%d", position.Filename, position.Line), Text: fmt.Sprintf(format, args...), rule: rule, subject: subject,
	})
}

// missing is a finding about a name of the rules that the source does not have.
func (c *checking) missing(what string) {
	c.findings = append(c.findings, Finding{Position: "rules", Text: what + " does not exist"})
}

// readSender reads which functions of a package send requests that change something.
func (c *checking) readSender(p *typed) {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var b body
			ast.Inspect(f, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.Ident:
					if named, ok := p.info.Uses[n].(*types.Func); ok {
						b.names = append(b.names, named.Origin())
					}
				case *ast.CompositeLit:
					b.operations = append(b.operations, p.requestOf(n)...)
				case *ast.AssignStmt:
					for i, to := range n.Lhs {
						if isMethodField(p.variable(to)) && (len(n.Lhs) != len(n.Rhs) || p.changes(n.Rhs[i])) {
							b.operations = append(b.operations, "a request")
						}
					}
				case *ast.CallExpr:
					if name, ok := p.primitive(p.static(n.Fun), n); ok {
						b.operations = append(b.operations, name)
					}
				}
				return true
			})
			c.bodies[p.info.Defs[f.Name].(*types.Func)] = b
		}
	}
}

// isMethodField reports whether a variable is the HTTP method of a request that is a value.
func isMethodField(v *types.Var) bool { return v != nil && v.IsField() && v.Name() == "method" }

// requestOf returns the operation of a request that is a value, if it changes something.
func (p *typed) requestOf(n *ast.CompositeLit) []string {
	operation, isChange := "a request", false
	for _, value := range n.Elts {
		pair, ok := value.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		field := p.variable(pair.Key)
		switch {
		case isMethodField(field):
			isChange = p.changes(pair.Value)
		case field != nil && field.IsField() && field.Name() == "op":
			if text := p.info.Types[pair.Value].Value; text != nil {
				operation = constant.StringVal(text)
			}
		}
	}
	if !isChange {
		return nil
	}
	return []string{operation}
}

// changes reports whether an expression may be an HTTP method other than GET and HEAD: it names another one, or none.
func (p *typed) changes(expr ast.Expr) bool {
	reads, writes := false, false
	ast.Inspect(expr, func(node ast.Node) bool {
		e, ok := node.(ast.Expr)
		if !ok || p.info.Types[e].Value == nil || p.info.Types[e].Value.Kind() != constant.String {
			return true
		}
		switch constant.StringVal(p.info.Types[e].Value) {
		case "GET", "HEAD":
			reads = true
		case "POST", "PUT", "PATCH", "DELETE":
			writes = true
		}
		return false
	})
	return writes || !reads
}

// primitive returns the name of a function of gophercloud or net/http that sends, or makes, a request that changes something. Call is
// nil for a function value.
func (p *typed) primitive(f *types.Func, call *ast.CallExpr) (string, bool) {
	if f == nil || f.Pkg() == nil {
		return "", false
	}
	of := receiver(f)
	path := f.Pkg().Path()
	isGophercloud := matches(gophercloud+"/...", path)
	switch {
	case isGophercloud && (of == "ServiceClient" || of == "ProviderClient"), path == "net/http":
		switch f.Name() {
		case "Post", "PostForm", "Put", "Patch", "Delete":
			return nameOf(f), of != "Header" && of != "Values"
		case "Request":
			return nameOf(f), of != "" && p.sends(call, 1)
		case "NewRequest":
			return nameOf(f), p.sends(call, 0)
		case "NewRequestWithContext":
			return nameOf(f), p.sends(call, 1)
		}
	case isGophercloud && of == "":
		for v := range f.Signature().Params().Variables() {
			if strings.HasSuffix(v.Type().String(), ".ServiceClient") && !strings.HasPrefix(f.Name(), "Get") && !strings.HasPrefix(f.Name(), "List") {
				return nameOf(f), true
			}
		}
	}
	return "", false
}

// sends reports whether a call sends a request that changes something. The method of a request that is a value is judged where it
// is set.
func (p *typed) sends(call *ast.CallExpr, method int) bool {
	if call == nil || len(call.Args) <= method {
		return true
	}
	return !isMethodField(p.variable(call.Args[method])) && p.changes(call.Args[method])
}

// operations returns what a sender's function sends, or functions that it names.
func (c *checking) operations(f *types.Func) map[string]bool {
	if known, ok := c.sent[f]; ok {
		return known
	}
	found, seen := map[string]bool{}, map[*types.Func]bool{f: true}
	for queue := []*types.Func{f}; len(queue) > 0; queue = queue[1:] {
		b := c.bodies[queue[0]]
		for _, operation := range b.operations {
			found[operation] = true
		}
		for _, named := range b.names {
			if !seen[named] {
				seen[named] = true
				queue = append(queue, named)
			}
		}
	}
	c.sent[f] = found
	return found
}

// request implements graph.request.
func (c *checking) request(p *typed, f *types.Func, call *ast.CallExpr) *function {
	if known := c.requests[f]; known != nil {
		return known
	}
	name, ok := p.primitive(f, call)
	switch {
	case ok:
		return c.newRequest(&function{name: name}, name) // of this call
	case c.senders[f.Pkg()] != nil && len(c.operations(f)) > 0:
		c.requests[f] = &function{name: nameOf(f), operations: c.operations(f)}
		return c.requests[f]
	}
	return nil
}

// alike implements graph.alike: the caller's interfaces may be behind others.
func (c *checking) alike(method *types.Func) (found []*function) {
	for key, f := range c.requests {
		if hook, ok := key.(*types.Func); ok && hook.Name() == method.Name() && types.Identical(hook.Type(), method.Type()) {
			found = append(found, f)
		}
	}
	return found
}

func (c *checking) newRequest(f *function, key any) *function {
	if c.requests[key] == nil {
		c.requests[key] = f
	}
	return c.requests[key]
}

// readHooks adds the methods and fields that the caller implements.
func (c *checking) readHooks(p *typed, g *graph) {
	add := func(of *types.Named, member types.Object) *function {
		name := of.Obj().Name() + "." + member.Name()
		if !member.Exported() || !of.Obj().Exported() || !takesContext(member.Type()) {
			return nil
		}
		if slices.Contains(c.Reads, name) {
			c.read[name] = true
			return nil
		}
		return c.newRequest(&function{name: p.types.Name() + "." + name}, member)
	}
	for _, named := range p.named() {
		switch u := named.Underlying().(type) {
		case *types.Interface:
			for method := range u.ExplicitMethods() {
				add(named, method)
			}
		case *types.Struct:
			for field := range u.Fields() {
				if f := add(named, field); f != nil {
					g.hold(field, f)
				}
			}
		}
	}
}

func takesContext(t types.Type) bool {
	signature, ok := t.Underlying().(*types.Signature)
	return ok && signature.Params().Len() > 0 && signature.Params().At(0).Type().String() == "context.Context"
}

// readRecorders finds the functions that a journal runs.
func (c *checking) readRecorders(g *graph) {
	for _, name := range c.Recorders {
		known := len(g.recorders)
		for _, p := range g.packages {
			for _, object := range p.info.Defs {
				f, ok := object.(*types.Func)
				if !ok || p.types != c.ledger || receiver(f) != "Journal" || f.Name() != name {
					continue
				}
				for v := range f.Signature().Params().Variables() {
					if hasFunctions(v.Type()) {
						g.recorders[v] = true
					}
				}
			}
		}
		if len(g.recorders) == known {
			c.missing("Journal." + name + " with a function to run")
		}
	}
}

// checkCalls finds requests that are sent outside of recorded functions.
func (c *checking) checkCalls(g *graph) {
	isRequest := map[*function]bool{}
	for _, f := range c.requests {
		isRequest[f] = true
	}
	from := g.exposed()
	for _, f := range g.all {
		if _, isExposed := from[f]; !isExposed {
			continue
		}
		for _, call := range f.calls {
			if isRequest[call.to] {
				c.find(call.at, "recorded", f.outer.name+": "+call.to.name, "%s is called outside of the functions that Journal.%s run: %s",
					call.to.name, strings.Join(c.Recorders, ", "), pathTo(from, f, call.to))
			}
		}
	}
}

// sending is a request of Once in a function.
type sending struct {
	at              token.Pos
	sender, subject string
}

// checkOnce finds requests of Once that several functions name.
func (c *checking) checkOnce(g *graph) {
	found := map[string][]sending{}
	for _, p := range g.packages {
		p.eachFunction(func(name string, node ast.Node) {
			ast.Inspect(node, func(node ast.Node) bool {
				n, _ := node.(*ast.Ident)
				if n == nil || p.static(n) == nil {
					return true
				}
				for _, request := range g.targets(p, p.static(n), nil) {
					for _, once := range c.Once {
						if request.name == once || request.operations[once] {
							found[once] = append(found[once], sending{n.Pos(), name, name + ": " + request.name})
						}
					}
				}
				return true
			})
		})
	}
	for _, once := range c.Once {
		c.onlyOne(once, found[once])
	}
}

// onlyOne finds functions that send what one function may send.
func (c *checking) onlyOne(once string, found []sending) {
	senders := map[string]bool{}
	isExcepted := func(s sending) bool {
		_, ok := Rules{Exceptions: c.Exceptions}.exceptionFor(Finding{rule: "once", subject: s.subject})
		return ok
	}
	for _, s := range found {
		if !isExcepted(s) {
			senders[s.sender] = true
		}
	}
	if len(senders) == 0 {
		c.missing("a function that sends " + once)
	}
	list := strings.Join(slices.Sorted(maps.Keys(senders)), ", ")
	for _, s := range found {
		if isExcepted(s) || len(senders) > 1 {
			c.find(s.at, "once", s.subject, "%s sends %s: one function may, and these do: %s", s.sender, once, list)
		}
	}
}

// checkStates finds places that set the state of an effect.
func (c *checking) checkStates(p *typed) {
	p.eachFunction(func(name string, node ast.Node) {
		if name == c.Transition {
			return
		}
		report := func(at token.Pos) {
			c.find(at, "state", name, "%s sets the state of an effect: only %s may", name, c.Transition)
		}
		ast.Inspect(node, func(node ast.Node) bool {
			if literal, ok := node.(*ast.CompositeLit); ok && c.isLedgers(p.info.TypeOf(literal), "Effect") && len(literal.Elts) > 0 {
				pair, _ := literal.Elts[0].(*ast.KeyValueExpr)
				isSet := pair == nil || slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
					return c.isState(p, e.(*ast.KeyValueExpr).Key)
				})
				if isSet {
					report(literal.Pos())
				}
			}
			for _, to := range written(node) {
				star, _ := ast.Unparen(to).(*ast.StarExpr)
				if c.isState(p, to) || star != nil && c.isLedgers(p.info.TypeOf(star), "Effect") {
					report(to.Pos())
				}
			}
			return true
		})
	})
}

// isState reports whether an expression is the state of an effect.
func (c *checking) isState(p *typed, expr ast.Expr) bool {
	v := p.variable(expr)
	return v != nil && v.IsField() && v.Name() == "State" && v.Pkg() == c.ledger && c.isLedgers(v.Type(), "State") && c.fieldOf("Effect", v)
}

func (c *checking) fieldOf(name string, v *types.Var) bool {
	of, ok := c.ledger.Scope().Lookup(name).Type().Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range of.Fields() {
		if field == v {
			return true
		}
	}
	return false
}

// isLedgers reports whether a type is one of the ledger's, or a pointer to it.
func (c *checking) isLedgers(t types.Type, name string) bool {
	if t == nil {
		return false
	}
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() == c.ledger && named.Obj().Name() == name
}

// checkOutcomes finds functions other than Outcome that decide from an answer what has become of a request: those that take an error
// and return a state, and those that ask what Outcome asks.
func (c *checking) checkOutcomes(p *typed) {
	p.eachFunction(func(name string, node ast.Node) {
		if name == c.Outcome {
			return
		}
		ast.Inspect(node, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				f, _ := p.info.Defs[n.Name].Type().(*types.Signature)
				c.checkOutcome(p, n.Pos(), name, f)
			case *ast.FuncLit:
				f, _ := p.info.TypeOf(n).(*types.Signature)
				c.checkOutcome(p, n.Pos(), name, f)
			case *ast.Ident:
				if object := p.info.Uses[n]; object != nil && c.asked[object] {
					c.find(n.Pos(), "outcome", name, "%s asks for %s, as %s does: only that one may say what has become of a request", name, object.Name(), c.Outcome)
				}
			}
			return true
		})
	})
}

func (c *checking) checkOutcome(p *typed, at token.Pos, name string, f *types.Signature) {
	has := func(list *types.Tuple, is func(types.Type) bool) bool {
		for v := range list.Variables() {
			if is(v.Type()) {
				return true
			}
		}
		return false
	}
	isError := func(t types.Type) bool { return t.String() == "error" }
	isState := func(t types.Type) bool { return c.isLedgers(t, "State") }
	if has(f.Params(), isError) && has(f.Results(), isState) {
		c.find(at, "outcome", name, "%s makes a state of an error: only %s may", name, c.Outcome)
	}
}

// readOutcome notes what Outcome asks the senders for.
func (c *checking) readOutcome(writers []*typed) {
	isThere := map[string]bool{}
	for _, p := range writers {
		p.eachFunction(func(name string, node ast.Node) {
			isThere[name] = true
			if name != c.Outcome {
				return
			}
			ast.Inspect(node, func(node ast.Node) bool {
				if n, ok := node.(*ast.Ident); ok && p.info.Uses[n] != nil && c.senders[p.info.Uses[n].Pkg()] != nil {
					c.asked[p.info.Uses[n]] = true
				}
				return true
			})
		})
	}
	for _, name := range []string{c.Outcome, c.Transition} {
		if !isThere[name] {
			c.missing(name)
		}
	}
}

// eachFunction calls visit for each declaration of the package.
func (p *typed) eachFunction(visit func(name string, node ast.Node)) {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			name := p.types.Name() + ".init"
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = nameOf(p.info.Defs[f.Name].(*types.Func))
			}
			visit(name, decl)
		}
	}
}
