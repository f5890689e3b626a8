"""Advice about settings of the loader comes with the command that tries it."""

from dataclasses import replace

import pytest

from stepscope.analyses.lib.job_command import job_command
from stepscope.core.finding import Advice, Finding, Title
from stepscope.core.synth import Synth
from stepscope.report.diagnose import diagnose
from stepscope.report.trials import with_trial
from stepscope.rules.input_pipeline import input_bound

COMMAND = ("python", "train.py", "--data", "my data")


def finding(advice: str, code: str = "") -> Finding:
    advices = (Advice(text=advice, code=code), Advice(text="Set pin_memory=True"))
    return Finding(title=Title("A"), cause="data-reading", evidence=(), gain=None, advice=advices, ranks=(0,))


def test_settings_are_tried_with_the_command_of_the_job() -> None:
    tried = "stepscope tune loader -- python train.py --data 'my data'"
    assert with_trial(finding("Set num_workers=4"), COMMAND).trial == tried
    assert with_trial(finding("Pin", "DataLoader(..., pin_memory=True)"), COMMAND).trial == tried


@pytest.mark.parametrize("command", [None, ()])
def test_without_a_command_nothing_can_be_tried(command: tuple[str, ...] | None) -> None:
    assert with_trial(finding("Set num_workers=4"), command).trial == ""


def test_what_no_setting_changes_has_no_trial() -> None:
    assert with_trial(finding("Crop first"), COMMAND).trial == ""
    assert with_trial(replace(finding("Set num_workers=4"), trial="stepscope x"), COMMAND).trial == "stepscope x"


def test_a_diagnosis_has_the_trials() -> None:
    synth = Synth().add("meta", source="run.json", key="command", value='["python", "train.py"]')
    input_bound.example(synth, False)
    run = synth.run()
    assert job_command(run) == ("python", "train.py")
    assert diagnose(run).findings[0].finding.trial == "stepscope tune loader -- python train.py"
