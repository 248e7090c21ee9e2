"""What tools/growth.py measures with."""

import yaml

import growth
from tilewave import project


def test_its_kernels_are_all_different_and_selected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = growth.write(tmp_path, kernels=3, variants=2, shapes=4)
    made = project.load(yaml.safe_load(path.read_text()), "test.yaml")
    assert len(made.plan.kernels) == 3 and len(made.plan.requests) == 24
    assert len({tuple(project.known_by(one)[2:]) for one in made.kernels.values()}) == 3


def test_a_rule_takes_from_its_jobs_start_to_their_end():
    text = "[Mon Nov 23 01:00:58 2026]\nJob 3: Compile a, b\n[Mon Nov 23 01:01:02 2026]\n"
    assert growth.by_rule(text + "Finished jobid: 3 (Rule: compile)\n") == {"compile": 4.0}
