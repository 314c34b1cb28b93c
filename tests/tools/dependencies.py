"""What the crates that pmfcl is built from contain: lines, `unsafe`, scripts that run at build time, the network, other processes.

    python tests/tools/dependencies.py [--all]      direct dependencies, or every crate, as a Markdown table

Facts found by searching the sources that cargo has unpacked, without tests, benchmarks and examples; nobody has read all of them.
"""

import json
import pathlib
import re
import subprocess
import sys

SKIPPED = {"tests", "benches", "examples", "test", "fuzz"}
NETWORK = re.compile(r"\bstd::net\b|\bTcpStream\b|\bUdpSocket\b|\breqwest\b|\bhyper::")
PROCESS = re.compile(r"\bprocess::Command\b|\bCommand::new\(")


def facts(manifest: pathlib.Path) -> dict[str, str]:
    folder, lines, unsafe, network, process = manifest.parent, 0, 0, False, False
    for path in folder.rglob("*.rs"):
        inside = path.relative_to(folder)
        if SKIPPED & set(inside.parts):
            continue
        code = "\n".join(
            line for line in path.read_text(errors="replace").splitlines() if not line.lstrip().startswith("//")
        )
        lines += code.count("\n") + 1
        unsafe += len(re.findall(r"\bunsafe\b(?!_)", code))
        if inside.name != "build.rs":
            network |= bool(NETWORK.search(code))
            process |= bool(PROCESS.search(code))
    return {
        "lines": str(lines),
        "`unsafe`": str(unsafe),
        "network": "yes" if network else "",
        "processes": "yes" if process else "",
    }


def main(everything: bool) -> None:
    # --filter-platform: what is built here, not on Windows or in a browser.
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True))
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--all-features",
        "--filter-platform",
        host[1] if host else "",
    ]
    found = json.loads(subprocess.check_output(command, text=True))
    own = set(found["workspace_members"])
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    packages = {package["id"]: package for package in found["packages"]}
    published = {one for one in own if packages[one]["publish"] != []} | {
        one for one in own if packages[one]["name"] == "pmfcl-python"
    }

    def needed(of: str) -> list[str]:
        return [
            dep["pkg"] for dep in nodes[of]["deps"] if any(kind["kind"] in (None, "build") for kind in dep["dep_kinds"])
        ]

    direct = {dep for one in published for dep in needed(one)} - own
    reached, ahead = set(direct), list(direct)
    while ahead:
        new = set(needed(ahead.pop())) - reached - own
        reached |= new
        ahead += new
    shown = sorted(reached if everything else direct, key=lambda one: packages[one]["name"])
    print("| crate | licence | lines | `unsafe` | at build time | network | processes |")
    print("| --- | --- | ---: | ---: | --- | --- | --- |")
    for one in shown:
        package = packages[one]
        kinds = {kind for target in package["targets"] for kind in target["kind"]}
        build = ["script"] * ("custom-build" in kinds) + ["macro"] * ("proc-macro" in kinds)
        of = facts(pathlib.Path(package["manifest_path"]))
        cells = [
            f"{package['name']} {package['version']}",
            package["license"],
            of["lines"],
            of["`unsafe`"],
            ", ".join(build),
            of["network"],
            of["processes"],
        ]
        print("| " + " | ".join(cells) + " |")
    print(f"\n{len(direct)} direct dependencies, {len(reached)} crates in all.")


if __name__ == "__main__":
    main("--all" in sys.argv)
