"""Holds the page's Kubernetes manifest against the schema of what it asks for, a PyTorchJob.

    python -m record.engines_manifest [FILE]      # check a manifest; exit status 1 if it is wrong
    python -m record.engines_manifest --update    # make the schema anew, from kubeflow-training

The whole schema of a PyTorchJob holds that of a pod, half a megabyte. `engines_pytorchjob.json` is
cut to our manifest: of every object that it has, the names and types of all fields that the object
may have, and below a field that it does not use, anything. kubeflow-training, from which that file
is made, is generated from the same declarations as the operator's CustomResourceDefinition.

What the operator checks beyond its schema, when a job is created, is in WEBHOOK.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from press.project import COURSE

MANIFEST = COURSE / "engines/pytorchjob.yaml"
SCHEMA = Path(__file__).with_name("engines_pytorchjob.json")
ROOT = "KubeflowOrgV1PyTorchJob"
SIMPLE = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string"},
    "object": {},
}
COMMENT = (
    "Made by site/engines_manifest.py from the models of the Python packages kubeflow-training {} "
    "and kubernetes {}, both under the Apache License 2.0. Cut to the objects of pytorchjob.yaml."
)
CONTAINERS = {
    "contains": {"properties": {"name": {"const": "pytorch"}}},
    "items": {"required": ["name", "image"]},
}
REPLICA = {
    "properties": {
        "template": {"properties": {"spec": {"properties": {"containers": CONTAINERS}}}},
    },
}
WEBHOOK = {  # kubeflow/training-operator v1.9.0, pkg/webhooks/pytorch/pytorchjob_webhook.go
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kubeflow.org/v1"},
        "kind": {"const": "PyTorchJob"},
        "metadata": {
            "required": ["name"],
            "properties": {"name": {"pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}},
        },
        "spec": {
            "properties": {
                "pytorchReplicaSpecs": {
                    "propertyNames": {"enum": ["Master", "Worker"]},
                    "additionalProperties": REPLICA,
                    "properties": {
                        "Master": {
                            **REPLICA,
                            "required": ["replicas"],
                            "properties": REPLICA["properties"] | {"replicas": {"const": 1}},
                        },
                    },
                },
            },
        },
    },
}


def faults(manifest: str, schema: dict[str, Any]) -> list[str]:
    """Return what is wrong with a manifest, a sentence each; none if the operator would take it."""
    try:
        job = yaml.safe_load(manifest)
    except yaml.YAMLError as error:
        return [f"not YAML: {' '.join(str(error).split())}"]
    validators = [jsonschema.Draft202012Validator(rules) for rules in (schema, WEBHOOK)]
    errors = [error for one in validators for error in one.iter_errors(job)]
    return [_sentence(error) for error in errors]


def _sentence(error: jsonschema.ValidationError) -> str:
    if error.validator == "contains":
        return f"{error.json_path}: no container is named 'pytorch', for which the operator looks"
    said = f"{error.json_path}: {error.message}"
    known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties" and known:
        unknown = next(name for name in error.instance if name not in known)
        near = difflib.get_close_matches(unknown, known, 1)
        return said + (f"; did you mean {near[0]!r}?" if near else f"; known are {sorted(known)}")
    return said


# ---- The schema ----------------------------------------------------------------------------------


def whole_schema() -> dict[str, Any]:
    """Return the schema of a PyTorchJob as JSON Schema, from the packages' generated models."""
    definitions: dict[str, Any] = {}

    def of(kind: str) -> dict[str, Any]:
        if kind in SIMPLE:
            return SIMPLE[kind]
        if match := re.fullmatch(r"list\[(.*)\]", kind):
            return {"type": "array", "items": of(match[1])}
        if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
            return {"type": "object", "additionalProperties": of(match[1])}
        if kind not in definitions:
            definitions[kind] = {}  # it may hold itself
            definitions[kind] = _object(_model(kind), of)
        return {"$ref": f"#/$defs/{kind}"} if definitions[kind] is not None else {}

    return {**of(ROOT), "$defs": definitions}


def _model(kind: str) -> type | None:
    from kubeflow.training import models
    from kubernetes.client import models as of_kubernetes

    return getattr(models, kind, None) or getattr(of_kubernetes, kind, None)


def _object(model: type | None, of) -> dict[str, Any]:
    if model is None:  # a type of autoscaling, which kubernetes names in another way
        return {}
    names = model.attribute_map
    required = re.findall(r"client_side_validation and (\w+) is None", inspect.getsource(model))
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {names[name]: of(kind) for name, kind in model.openapi_types.items()},
        "required": sorted({names[name] for name in required}),
    }


def cut(schema: dict[str, Any], job: Any) -> dict[str, Any]:
    """Return the schema without the definitions of objects that a job does not have."""
    used: set[str] = set()

    def visit(rules: dict[str, Any], value: Any) -> None:
        if name := rules.get("$ref", "").removeprefix("#/$defs/"):
            used.add(name)
            rules = schema["$defs"][name]
        if isinstance(value, list):
            for item in value:
                visit(rules.get("items", {}), item)
        elif isinstance(value, dict):
            for key, item in value.items():
                known = rules.get("properties", {})
                visit(known.get(key, rules.get("additionalProperties") or {}), item)

    visit(schema, job)
    kept = {name: schema["$defs"][name] for name in sorted(used)}
    text = json.dumps({"$ref": schema["$ref"], "$defs": kept})
    gone = re.compile(r'\{"\$ref": "#/\$defs/(\w+)"\}')
    return json.loads(gone.sub(lambda m: m[0] if m[1] in used else "{}", text))


def made_anew() -> str:
    """Return the text of the schema's file, from the packages that are installed."""
    from importlib.metadata import version

    comment = COMMENT.format(version("kubeflow-training"), version("kubernetes"))
    schema = cut(whole_schema(), yaml.safe_load(MANIFEST.read_text()))
    return json.dumps({"$comment": comment, **schema}, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Check a manifest, or make the schema anew; return the exit status."""
    if arguments == ["--update"]:
        SCHEMA.write_text(made_anew())
        return 0
    path = Path(arguments[0]) if arguments else MANIFEST
    try:
        found = faults(path.read_text(), json.loads(SCHEMA.read_text()))
    except OSError as error:
        print(f"{path} cannot be read ({error.strerror}); name a manifest", file=sys.stderr)
        return 2
    print("\n".join(found) or f"{path.name}: a PyTorchJob that the operator takes; not executed")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
