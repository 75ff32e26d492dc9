#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2, set up as `transformers` does, and writes what came out.

    python3 -m venv .venv-chat && .venv-chat/bin/pip install jinja2==3.1.6
    .venv-chat/bin/python scripts/make_chat_template_golden.py snippets       # tests/golden/jinja_snippets.json
    .venv-chat/bin/python scripts/make_chat_template_golden.py templates DIR # tests/golden/chat_templates.json
    .venv-chat/bin/python scripts/make_chat_template_golden.py show FILE.jinja "name of a conversation"

`templates` renders every conversation of tests/golden/chat_conversations.json by every *.jinja of DIR and by the template
of each *.gguf there or in models/ that has one. It keeps lengths and SHA-256 only, since the templates are not ours.
`show` prints one rendering, to be compared with what kvern makes of it (the test says how). `snippets` renders the
templates of our own that stand in its file and writes the text beside them: to add one, write it there with null.
"""
import datetime
import hashlib
import json
import pathlib
import struct
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
# The clock of every rendering; the tests set the same.
NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks the words of the model; its body is printed."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(lineno)

    @staticmethod
    def _text(caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


ENVIRONMENT = make_environment()


def render(template, variables):
    """(text, None), or (None, name of the error)."""
    try:
        text = ENVIRONMENT.from_string(template).render(**variables)
        text.encode("utf-8")
        return text, None
    except Exception as error:  # pylint: disable=broad-except
        return None, f"{type(error).__name__}: {error}"


def chat_variables(conversation, tools):
    variables = {
        "messages": conversation["messages"] * conversation.get("repeat", 1),
        "tools": tools[conversation["tools"]] if "tools" in conversation else None,
        "documents": conversation.get("documents"),
        "add_generation_prompt": conversation.get("add_generation_prompt", True),
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    return variables | conversation.get("more", {})


def gguf_string(path, wanted):
    """The string under the key `wanted` in the metadata of a GGUF file, or None."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    with open(path, "rb") as file:

        def number(form):
            return struct.unpack("<" + form, file.read(struct.calcsize(form)))[0]

        def text():
            return file.read(number("Q"))

        def skip(kind):
            if kind == 8:
                text()
            elif kind == 9:
                inner, count = number("I"), number("Q")
                if inner in sizes:
                    file.seek(sizes[inner] * count, 1)
                else:
                    for _ in range(count):
                        skip(inner)
            else:
                file.seek(sizes[kind], 1)

        if file.read(4) != b"GGUF":
            return None
        number("I"), number("Q")
        for _ in range(number("Q")):
            key, kind = text().decode(), number("I")
            if key == wanted and kind == 8:
                return text().decode()
            skip(kind)
    return None


def read_template(path):
    if path.suffix == ".gguf":
        return gguf_string(path, "tokenizer.chat_template")
    return path.read_bytes().decode("utf-8")


def templates_in(folder):
    """(name, template) of each file that has one."""
    files = sorted(folder.glob("*.jinja")) + sorted(folder.glob("*.gguf")) + sorted((ROOT / "models").glob("*.gguf"))
    for path in files:
        if template := read_template(path):
            yield path.name, template


def make_templates(folder):
    conversations = json.loads((GOLDEN / "chat_conversations.json").read_text(encoding="utf-8"))
    tools = json.loads((GOLDEN / "chat_tools.json").read_text(encoding="utf-8"))
    golden = {}
    num_errors = 0
    for name, template in templates_in(folder):
        golden[name] = {"template_sha256": hashlib.sha256(template.encode()).hexdigest(), "renderings": {}}
        for conversation in conversations:
            text, error = render(template, chat_variables(conversation, tools))
            if error:
                num_errors += 1
                golden[name]["renderings"][conversation["name"]] = "error"
            else:
                data = text.encode("utf-8")
                digest = hashlib.sha256(data).hexdigest()
                golden[name]["renderings"][conversation["name"]] = f"{len(data)} {digest}"
    write(GOLDEN / "chat_templates.json", golden)
    print(f"{len(golden)} templates, {len(conversations)} conversations, {num_errors} errors", file=sys.stderr)


def make_snippets():
    path = GOLDEN / "jinja_snippets.json"
    groups = json.loads(path.read_text(encoding="utf-8"))
    for group in groups:
        for template in group["results"]:
            text, error = render(template, group["variables"])
            group["results"][template] = {"error": error.split(":")[0]} if error else text
    write(path, groups)
    print(f"{sum(len(group['results']) for group in groups)} snippets", file=sys.stderr)


def write(path, golden):
    path.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def show(path, name):
    conversations = json.loads((GOLDEN / "chat_conversations.json").read_text(encoding="utf-8"))
    tools = json.loads((GOLDEN / "chat_tools.json").read_text(encoding="utf-8"))
    for conversation in conversations:
        if conversation["name"] == name:
            text, error = render(read_template(path), chat_variables(conversation, tools))
            if error:
                print(f"error: {error}", file=sys.stderr)
                return 1
            sys.stdout.write(text)
            return 0
    print(f"there is no conversation '{name}'", file=sys.stderr)
    return 2


def main(arguments):
    match arguments:
        case ["snippets"]:
            make_snippets()
        case ["templates", folder]:
            make_templates(pathlib.Path(folder))
        case ["show", path, name]:
            return show(pathlib.Path(path), name)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
