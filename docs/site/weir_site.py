"""The site's own part of Sphinx: links of pages, tabs for languages, names that link to their reference, and Fortran."""
import pathlib
import posixpath
import re

import furo
import myst_parser
from docutils import nodes
from sphinx import addnodes
from sphinx.domains.c import CDomain
from sphinx.domains.cpp import CPPDomain
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx_inline_tabs._impl import TabContainer

import pages
import docstrings

LOG = logging.getLogger(__name__)
ORIGINS = pages.origins()
PAGES = {origin: name for name, origin in ORIGINS.items()}
PAGES["docs/README.md"] = PAGES["README.md"] = "index"
PAGES |= {f"include/weir/{header.name}": f"{'cpp' if header.suffix == '.hpp' else 'c'}/{header.stem}"
          for header in pages.ROOT.glob("include/weir/*.h*")}


class Links(SphinxTransform):
    """A link to a file of the repository becomes a link to its page on the site; without a page, plain text. Pictures scroll."""

    default_priority = 400

    def apply(self):
        origin = ORIGINS.get(self.env.docname)
        if origin is None:
            return
        folder, here = posixpath.dirname(origin), posixpath.dirname(self.env.docname)
        links = [*self.document.findall(addnodes.pending_xref), *self.document.findall(addnodes.download_reference)]
        for link in links:
            name, _, anchor = link["reftarget"].partition("#")
            if not name or link["reftype"] != "myst" or link.get("refdomain") == "doc":  # MyST 1 and later have found the page
                continue
            file = posixpath.normpath(posixpath.join(folder, name))
            if file in PAGES:
                target = posixpath.relpath(PAGES[file], here or ".") + ".md"
                new = addnodes.pending_xref("", *link.children, **link.attributes)
                new.source, new.line = link.source, link.line
                new["reftarget"] = f"{target}#{anchor}" if anchor else target
                if myst_parser.__version__ >= "1":
                    new["refdomain"], new["reftarget"], new["reftargetid"] = "doc", PAGES[file], anchor or None
                link.replace_self(new)
            else:
                if not (pages.ROOT / file).exists():
                    LOG.warning("there is no %s", file, location=link)
                link.replace_self(link.children)
        for image in list(self.document.findall(nodes.image)):
            if "://" not in image["uri"]:
                image["uri"] = "/" + posixpath.normpath(posixpath.join(folder, image["uri"]))
            if len(image.parent.children) == 1:
                image.parent.replace_self(nodes.container("", image, classes=["picture"]))


def comment_of(node):
    """What a comment of Markdown says; None of anything else."""
    found = re.fullmatch(r"<!-- (.*?) -->\s*", node.astext()) if isinstance(node, nodes.raw) else None
    return found and found[1]


class Tabs(SphinxTransform):
    """Sections below a heading that the comment <!-- tabs --> follows become tabs; so do blocks of code between <!-- tabs --> and
    <!-- end of tabs -->, which are named by their languages."""

    default_priority = 410
    LANGUAGES = {"cpp": "C++", "c": "C", "fortran": "Fortran", "python": "Python"}

    def apply(self):
        for mark in [node for node in self.document.findall(nodes.raw) if comment_of(node) == "tabs"]:
            parent, first = mark.parent, True
            for node in parent.children[parent.index(mark) + 1:]:
                if comment_of(node) is not None:
                    parent.remove(node)
                    if comment_of(node) == "end of tabs":
                        break
                    continue
                if isinstance(node, nodes.section):
                    tab = self.tab(node[0].children, node.children[1:], first)
                    tab[1]["ids"] = node["ids"]
                elif isinstance(node, nodes.literal_block) and node.get("language") in self.LANGUAGES:
                    tab = self.tab([nodes.Text(self.LANGUAGES[node["language"]])], [node], first)
                else:
                    continue
                parent.replace(node, tab)
                first = False
            parent.remove(mark)

    @staticmethod
    def tab(title, content, new):
        tab = TabContainer("", type="tab", new_set=new)
        tab += nodes.label("", "", *[child.deepcopy() for child in title])
        tab += nodes.container("", *[child.deepcopy() for child in content], is_div=True, classes=["tab-content"])
        return tab


class Members(SphinxTransform):
    """Declarations that share a comment share their description, and types and functions are listed beside the page."""

    default_priority = 420
    LISTED = {"class", "struct", "enum", "function", "type", "macro", "fortran"}

    def apply(self):
        heads, seen = self.app.weir_continued, {}
        for described in list(self.document.findall(addnodes.desc)):
            if described["domain"] not in ("c", "cpp", "std"):
                continue
            names = [target["ids"][0] for target in described[0].findall(nodes.target) if target["ids"]]
            head = seen.get(heads.get(names[0])) if names else None
            if head is not None and head.parent is described.parent and not described[-1].children:
                head.insert(len(head.children) - 1, described[0])
                described.parent.remove(described)
            elif names:
                seen[names[0]] = described
        listed = set()
        for described in self.document.findall(addnodes.desc):
            if described["domain"] in ("c", "cpp", "std"):
                self.list_signatures(described, listed)

    def list_signatures(self, described, listed):
        for signature in described.findall(addnodes.desc_signature):
            if signature.parent is not described:
                continue
            name = [part.astext() for part in signature.findall(addnodes.desc_name)][-1]
            outer = described.parent
            while outer is not None and not isinstance(outer, addnodes.desc):
                outer = outer.parent
            scope = tuple(part.astext().rstrip("%") for part in signature.findall(addnodes.desc_addname)) if outer is None else \
                outer[0].get("_toc_parts") or ()
            signature["_toc_name"] = ""
            is_special = name in scope[-1:] or name.startswith(("~", "operator"))
            if described["objtype"] in self.LISTED and not is_special and (*scope, name) not in listed:
                signature["_toc_parts"], signature["_toc_name"] = (*scope, name), name
                listed.add((*scope, name))


class Names(SphinxPostTransform):
    """Code that is exactly a public name, or a call of one, links to its reference."""

    default_priority = 20
    formats = ("html",)

    def run(self):
        names = names_of(self.env)
        for code in list(self.document.findall(nodes.literal)):
            name = re.sub(r"\(.*\)$", "", code.astext())
            place = names.get(name)
            if place is None or not isinstance(code.parent, (nodes.paragraph, nodes.entry, nodes.inline)) or linked(code):
                continue
            if place[0] == self.env.docname and inside(code, place[1]):
                continue
            uri = self.app.builder.get_relative_uri(self.env.docname, place[0]) + "#" + place[1]
            code.replace_self(nodes.reference("", "", code.deepcopy(), internal=True, refuri=uri))


def linked(node):
    while node is not None:
        if isinstance(node, (nodes.reference, nodes.title)):
            return True
        node = node.parent
    return False


def inside(node, anchor):
    """Whether the node is part of what the anchor stands for."""
    while node is not None:
        if isinstance(node, addnodes.desc) and any(anchor in part["ids"] for part in node.findall(addnodes.desc_signature)):
            return True
        node = node.parent
    return False


def names_of(env):
    """Page and anchor of each public name; of C before Fortran, which has many of its names."""
    if not hasattr(env.app, "weir_names"):
        found = {}
        for domain in ("std", "py", "c", "cpp"):
            for name, _, kind, page, anchor, _ in env.get_domain(domain).get_objects():
                wanted = {"std": kind == "fortran", "py": name.startswith("weir."), "c": name.lower().startswith("weir_"),
                          "cpp": name.startswith("weir::")}[domain]
                if wanted and anchor and page.split("/")[0] in ("fortran", "python", "c", "cpp"):
                    found[name] = (page, anchor)
        env.app.weir_names = found
    return env.app.weir_names


def list_pages_only(app, name, template, context, doctree):
    """The list of all pages needs no headings: without them, it is made in a tenth of the time."""
    env, toctree = app.env, context["toctree"]

    def toctree_of_pages(**options):
        if not hasattr(app, "weir_tocs"):
            app.weir_tocs = {page: toc.deepcopy() for page, toc in env.tocs.items()}
            for item in (item for toc in app.weir_tocs.values() for item in toc.children if len(item) > 1):
                item[1].children = [entry for entry in item[1].findall(addnodes.toctree)]
        env.tocs, headings = app.weir_tocs, env.tocs
        try:
            return toctree(**options)
        finally:
            env.tocs = headings

    context["toctree"] = toctree_of_pages


def read_fortran(env, signature, node):
    """Writes a signature such as "subroutine weir_allreduce_plan%run(gradient, ierr)", and returns its name."""
    kind, name, arguments, value = re.match(r"(?:(\w+) )?([\w%]+)(\([^)]*\))?(.*)", signature).groups()
    if kind:
        node += addnodes.desc_annotation(kind, kind)
        node += addnodes.desc_sig_space()
    scope, _, own = name.rpartition("%")
    if scope:
        node += addnodes.desc_addname(scope + "%", scope + "%")
    node += addnodes.desc_name(own, own)
    if arguments:
        listed = addnodes.desc_parameterlist()
        listed += [addnodes.desc_parameter(argument, argument) for argument in arguments[1:-1].split(", ") if argument]
        node += listed
    if value:
        node += addnodes.desc_annotation(value, value)
    return name


def without_parameters(domain):
    """Parameters of functions are no names to search for."""
    get_objects = domain.get_objects
    domain.get_objects = lambda self: (found for found in get_objects(self) if not found[2].endswith("Param"))


def setup(app):
    for domain in (CDomain, CPPDomain):
        without_parameters(domain)
    app.add_object_type("fortran", "fortran", "single: %s (Fortran)", parse_node=read_fortran, objname="Fortran")
    for transform in (Links, Tabs, Members):
        app.add_transform(transform)
    app.add_post_transform(Names)
    app.add_config_value("weir_generated", "", "env")
    app.connect("config-inited", stage, priority=400)
    app.connect("html-page-context", list_pages_only, priority=400)
    app.connect("build-finished", forget_after_warnings)
    app.connect("build-finished", remove_old_pages)
    docstrings.connect(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


def stage(app, config):
    xml = pathlib.Path(app.srcdir).parent / "xml"
    config.breathe_projects = {"weir": str(xml)}
    pages.stage(app.srcdir, xml, pathlib.Path(config.weir_generated))
    app.weir_continued = pages.continued(xml)
    static = pathlib.Path(app.srcdir).parent / "static"
    mend_theme(static)
    config.html_static_path.append(str(static))


def forget_after_warnings(app, problem):
    """Pages are read again after a warning, so that the next build warns, too."""
    if problem or app._warncount:
        (pathlib.Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)


def remove_old_pages(app, problem):
    """The site is installed as it lies there."""
    made = {*app.env.found_docs, "genindex", "search", "py-modindex"}
    for file in pathlib.Path(app.outdir).rglob("*.html"):
        if file.relative_to(app.outdir).with_suffix("").as_posix() not in made:
            file.unlink()


def mend_theme(static):
    """Debian 12's furo lacks what its build makes of the sources: rules for a system in dark mode, and one script without imports."""
    theme = pathlib.Path(furo.__file__).parent / "theme/furo/static"
    css, script = (theme / "styles/furo.css").read_text(), (theme / "scripts/furo.js").read_text()
    dark = re.search(r'body\[data-theme="dark"\]\s*{([^}]*--color-background-primary[^}]*)}', css)
    missing = dark and "prefers-color-scheme" not in css
    pages.write(static / "dark.css", f"@media (prefers-color-scheme: dark) {{ body[data-theme=auto] {{{dark[1]}}} }}\n" if missing else "")
    imported = re.match(r'import Gumshoe from "(.*)";\n', script)
    if imported:
        pages.write(static / "scripts/furo.js", (theme / "scripts" / imported[1]).read_text() + script[imported.end():])
