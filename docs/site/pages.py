"""Which pages the web site has, and where they come from."""
import pathlib
import re
import shutil
import xml.etree.ElementTree

import fortran
from prose import literal, rst

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Pages besides those of docs, by their names on the site. index.md has the order of all.
OTHERS = {
    "index": "docs/site/index.md",
    "cpp/index": "docs/site/cpp.md",
    "c/index": "docs/site/c.md",
    "fortran/index": "capi/fortran/README.md",
    "python/index": "capi/python/README.md",
    "slurm": "slurm/README.md",
    "layers": "src/README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "examples/index": "examples/README.md",
    **{f"examples/{page.parent.name}": str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("examples/*/README.md"))},
}
HEADINGS = {"fortran/index": "Fortran", "python/index": "Python", "layers": "Layers"}
# What a header, a module of Fortran, or one of Python is about.
TITLES = {
    "weir": "Communicators and plans",
    "types": "Configurations, results and enumerations",
    "mpi": "Communicators from MPI",
    "status": "Status codes",
    "fusion": "Tensor fusion",
    "embedding": "Embedding tables",
    "optim": "Divided work, LARS and LAMB",
    "sparse_adam": "Sparse Adam",
    "sums": "Exact sparse sums",
    "schedule": "Schedules of blocks",
    "checkpoint": "Checkpoints",
    "datacache": "Training samples",
    "observer": "Observers",
}
FORTRAN = {
    "weir_communicators.F90": "Communicators",
    "weir_plans.f90": "Plans",
    "weir_types.f90": TITLES["types"],
    "weir_fusion.f90": TITLES["fusion"],
    "weir_tables.f90": TITLES["embedding"],
    "weir_operators.f90": "Divided work",
    "weir_optimizers.f90": "LARS and LAMB",
    "weir_sparse_adams.f90": TITLES["sparse_adam"],
    "weir_sparse_sums.f90": TITLES["sums"],
    "weir_schedules.f90": TITLES["schedule"],
    "weir_checkpoints.f90": TITLES["checkpoint"],
    "weir_encoded.f90": "Encoded gradients",
    "weir_library.f90": "The library",
}
# By module of Python, in the order of the site.
PYTHON = {
    "communicator": "Communicators",
    "plan": "Plans",
    "operation": "Calls in flight",
    "_types": "Configurations, results, enumerations and exceptions",
    "fusion": TITLES["fusion"],
    "embedding": TITLES["embedding"],
    "optim": TITLES["optim"],
    "sparse_adam": TITLES["sparse_adam"],
    "sums": TITLES["sums"],
    "schedule": TITLES["schedule"],
    "checkpoint": TITLES["checkpoint"],
    "datacache": TITLES["datacache"],
    "sources": "Sources of samples",
    "encoded": "Encoded gradients",
    "registry": "The library",
    "torch": "PyTorch",
}


def origins():
    """The file of each Markdown page, below the repository's root."""
    pages = {page.stem: f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md")) if page.name != "README.md"}
    return {**pages, **OTHERS}


def heading(text, line="="):
    return f"{text}\n{line * len(text)}\n"


def toctree(names):
    return "\n".join([".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""])


# ---- C and C++: what Doxygen has read, in the order of the headers

def leading_comment(header):
    """The prose that a header begins with, which Doxygen leaves out."""
    lines = []
    for line in header.read_text().splitlines():
        stripped = re.sub(r"^(//|/\*|\s\*)\s?|\s*\*/$", "", line)
        if not line.startswith(("//", "/*", " *")):
            break
        lines.append(stripped)
        if line.endswith("*/"):
            break
    text = re.sub(r"^weir/[\w.]+: ", "", "\n".join(lines))
    text = re.sub(r"Made by capi/interface/generate.py.*", "", text)
    return rst(text[:1].upper() + text[1:], header.suffix.strip("."))


def members(header, xml):
    """Line, kind and name of what a header declares."""
    file = xml / (header.name.replace("_", "__").replace(".", "_8") + ".xml")
    tree = xml_root(file)
    for inner in tree.iter("innerclass"):
        if inner.text.count("::") < 2:
            compound = xml_root(xml / f"{inner.get('refid')}.xml").find("compounddef")
            yield int(compound.find("location").get("line")), compound.get("kind"), inner.text
    space = list(xml_root(xml / "namespaceweir.xml").iter("memberdef")) if header.suffix == ".hpp" else []
    for member in [*tree.iter("memberdef"), *space]:
        place, kind, name = member.find("location"), member.get("kind"), member.findtext("name")
        scope = "weir::" if member.get("id").startswith("namespaceweir_") else ""
        public = scope or name.lower().startswith("weir_") and not NO_NAME.search(name)
        if place.get("file", "").endswith(f"weir/{header.name}") and public:
            yield int(place.get("line")), kind, scope + name


def xml_root(file):
    return xml.etree.ElementTree.parse(file).getroot()


# Include guards, and what only makes the list of statuses.
NO_NAME = re.compile(r"_H$|^WEIR_STATUS_(LIST|ENUMERATOR)$")
# Functions that need no comment, and do not share that of the function above.
OF_ITS_OWN = re.compile(r"(::|_)(rank|size|config|statistics|memory_bytes|value_bytes)$|"
                        r"::(state|rates|description|status|operator=|~\w+)$")


def reference_of_header(header, xml):
    page = [heading(f"{TITLES[header.stem]} (weir/{header.name})"),
            literal(f"#include <weir/{header.name}>", header.suffix.strip(".")), leading_comment(header)]
    found = {name: kind for _, kind, name in sorted(members(header, xml), reverse=True)}  # of a struct and its typedef, the struct
    page += [f".. doxygen{kind}:: {name}\n" for name, kind in reversed(found.items()) if "<" not in name]
    return "\n".join(page)


# ---- Python: every public name, on the page of its module

def reference_of_python():
    from sphinx.ext.autodoc.mock import mock

    with mock(["numpy", "torch"]):
        import weir
        import weir.torch

    by_module = {}
    for name in weir.__all__:
        module = getattr(weir, name).__module__.replace("weir.", "")
        module = "_types" if module == "weir" else module  # exceptions
        by_module.setdefault(module if module in PYTHON or not module.startswith("_") else "registry", []).append(f"weir.{name}")
    by_module["torch"] = [f"weir.torch.{name}" for name in weir.torch.__all__]
    documents = {"torch": rst(weir.torch.__doc__, "python")}
    require_titles(by_module, PYTHON)
    for module, names in by_module.items():
        page = [heading(PYTHON[module] + (" (weir.torch)" if module == "torch" else "")), documents.get(module, "")]
        for name in names:
            what = getattr(weir.torch if module == "torch" else weir, name.rpartition(".")[2])
            kind = "function" if not isinstance(what, type) else "exception" if issubclass(what, Exception) else "class"
            listed = module == "_types"  # in the class's own docstring
            inherited = kind == "class" and not issubclass(what, (tuple, str))
            page += [f".. auto{kind}:: {name}", "   :no-members:" if listed else "   :inherited-members:" if inherited else "", ""]
        yield f"python/{module.lstrip('_')}.rst", "\n".join(page)


# ---- all together

def headers(suffix):
    """In the order of the site."""
    found = {file.stem: file for file in ROOT.glob(f"include/weir/*{suffix}")}
    require_titles(found, TITLES)
    return [found[stem] for stem in TITLES if stem in found]


def require_titles(names, titles):
    missing = sorted(set(names) - set(titles))
    if missing:
        raise LookupError(f"docs/site/pages.py has no title for {', '.join(missing)}")


def made_pages(xml, generated):
    for folder, suffix in (("cpp", ".hpp"), ("c", ".h")):
        for header in headers(suffix):
            yield f"{folder}/{header.stem}.rst", reference_of_header(header, xml)
    used = re.findall(r"(?m)^ *use (weir_\w+)", (ROOT / "capi/fortran/weir.f90").read_text())
    require_titles(used, {file.split(".")[0] for file in FORTRAN})
    for file, title in FORTRAN.items():
        yield f"fortran/{file.split('.')[0]}.rst", fortran.page(generated / "fortran" / file, title)
    yield from reference_of_python()


def below(page):
    """What the navigation has below a page, in the order of the site."""
    if page == "examples/index":
        return [name.rpartition("/")[2] for name in OTHERS if name.startswith("examples/") and name != page]
    return {
        "cpp/index": [header.stem for header in headers(".hpp")],
        "c/index": [header.stem for header in headers(".h")],
        "fortran/index": [file.split(".")[0] for file in FORTRAN],
        "python/index": [module.lstrip("_") for module in PYTHON],
    }.get(page)


def functions_of(header, xml):
    """Line, id and name of the functions of a header, and whether they have a comment."""
    for file in xml.glob("*.xml"):
        for member in xml_root(file).iter("memberdef"):
            place = member.find("location")
            if member.get("kind") == "function" and place.get("file", "").endswith(f"weir/{header.name}"):
                comment = len(member.find("briefdescription")) + len(member.find("detaileddescription"))
                yield int(place.get("line")), member.get("id"), member.findtext("qualifiedname") or member.findtext("name"), comment


def continued(xml):
    """For each function without a comment right below another one: the first of these, which has the comment for all."""
    heads = {}
    for header in ROOT.glob("include/weir/*.h*"):
        lines = header.read_text().splitlines()
        found = sorted(set(functions_of(header, xml)))
        for (above, first, _, first_comment), (line, this, name, comment) in zip(found, found[1:]):
            apart = any(not text.strip() or text.lstrip().startswith(("//", "/*", "*")) for text in lines[above:line - 1])
            if not comment and not apart and (first_comment or first in heads) and not OF_ITS_OWN.search(name):
                heads[this] = heads.get(first, first)
    return heads


def write(file, text):
    """Leaves a file with the same content alone, so that Sphinx does not read it again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def stage(folder, xml, generated):
    """Fills the folder that Sphinx reads. `xml` is what Doxygen has written, `generated` what capi/interface has."""
    folder, there = pathlib.Path(folder), set()
    for name, origin in origins().items():
        text = (ROOT / origin).read_text()
        if name in HEADINGS:
            text = re.sub(r"\A# .*", f"# {HEADINGS[name]}", text)
        if below(name):
            how = ":maxdepth: 1" if name in ("cpp/index", "c/index") else ":hidden:"
            text += "\n".join(["", "```{toctree}", how, "", *below(name), "```", ""])
        there.add(folder / f"{name}.md")
        write(folder / f"{name}.md", text)
    for name, text in made_pages(xml, generated):
        there.add(folder / name)
        write(folder / name, text)
    for picture in [*ROOT.glob("docs/*.svg"), *ROOT.glob("examples/*/**/*.svg")]:
        copy = folder / picture.relative_to(ROOT)
        there.add(copy)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(picture, copy)
    for file in folder.rglob("*"):
        if file.is_file() and file not in there:
            file.unlink()
