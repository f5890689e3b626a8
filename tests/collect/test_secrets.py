"""What of a command line is written down."""

import json
import sys
from pathlib import Path

import pytest

from stepscope.collect.launch import launch
from stepscope.collect.secrets import HIDDEN, redacted, redacted_code
from stepscope.run_format.options import RecordingOptions

HF, AWS = "hf_" + "a1B2" * 9, "AKIA" + "Z9" * 8


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--api-key=abc"], [f"--api-key={HIDDEN}"]),
        (["--api_key", "abc", "--lr", "1"], ["--api_key", HIDDEN, "--lr", "1"]),
        (["--password", "-x-"], ["--password", HIDDEN]),
        (["--password", "--lr", "1"], ["--password", "--lr", "1"]),
        (["--wandb.apiKey", "abc"], ["--wandb.apiKey", HIDDEN]),
        (["WANDB_API_KEY=abc", "python"], [f"WANDB_API_KEY={HIDDEN}", "python"]),
        (["HF_TOKEN=abc"], [f"HF_TOKEN={HIDDEN}"]),
        (["AWS_SECRET_ACCESS_KEY=abc"], [f"AWS_SECRET_ACCESS_KEY={HIDDEN}"]),
        (["hub.token=abc"], [f"hub.token={HIDDEN}"]),
        (["+logger.auth_token=abc"], [f"+logger.auth_token={HIDDEN}"]),
        (["--db", "postgres://me:pw@host/db"], ["--db", f"postgres://me:{HIDDEN}@host/db"]),
        (["https://h/x?token=abc&n=3"], [f"https://h/x?token={HIDDEN}&n=3"]),
        (["--header", "Authorization: Bearer abc.def"], ["--header", f"Authorization: Bearer {HIDDEN}"]),
        ([HF], [HIDDEN]),
        ([f"--login={HF}"], [f"--login={HIDDEN}"]),
        ([f"--id={AWS}"], [f"--id={HIDDEN}"]),
        (["-c", "TOKEN=abc python t.py --lr 1"], ["-c", f"TOKEN={HIDDEN} python t.py --lr 1"]),
        (["-c", "python t.py --password 'a b' --lr 1"], ["-c", f"python t.py --password {HIDDEN} --lr 1"]),
        (["--credentials", "abc"], ["--credentials", HIDDEN]),
    ],
)
def test_values_of_secrets_are_hidden_and_names_stay(words: list[str], shown: list[str]) -> None:
    assert redacted(words) == shown


@pytest.mark.parametrize(
    "word",
    [
        "--tokenizer=gpt2", "--key-dim=64", "--max-tokens=128", "--max-token=128", "--num-tokens=5", "--token-dim=8",
        "--keys=a,b", "--sort-key=name", "--cls-token-id=3", "--pad_token_id=0", "--author=me", "--authors=me",
        "--passes=3", "--bypass=1", "--tokenizer-path=/x/y", "--monkey=1", "--key=value", "--attention-key=3",
        "--secret-name=x", "--no-auth", "--lr=1e-3", "model.key_bias=true", "--data=s3://bucket/a", "--text=a b",
        "--compass=1", "--tokens-per-step=9", "host:22@x", "--use-auth=false",
    ],
)  # fmt: skip
def test_what_only_sounds_like_a_secret_stays(word: str) -> None:
    assert redacted([word, "next"]) == [word, "next"]


@pytest.mark.parametrize("name", ["--tokenizer", "--key-dim", "--pad-token-id", "--keys", "--max-tokens"])
def test_the_word_after_an_ordinary_option_stays(name: str) -> None:
    assert redacted([name, "7"]) == [name, "7"]


@pytest.mark.slow
def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    job = (
        "import torch; p = torch.nn.Linear(2, 1); o = torch.optim.SGD(p.parameters(), 1e-3)\n"
        "for _ in range(3): p(torch.ones(1, 2)).sum().backward(); o.step()\n"
    )
    script = tmp_path / "train.py"
    script.write_text(job)
    out = tmp_path / "out"
    command = [sys.executable, str(script), "--api-key=sw0rdfish", "--password", "sw0rdfish", "--lr", "1"]
    assert launch(command, str(out), RecordingOptions()).code == 0
    files = [path for path in out.rglob("*") if path.is_file()]
    assert [path for path in files if b"sw0rdfish" in path.read_bytes()] == []
    assert len(files) >= 6
    shown = json.loads((out / "run.json").read_text())["command"]
    assert shown[2:] == [f"--api-key={HIDDEN}", "--password", HIDDEN, "--lr", "1"]
    assert {path.stat().st_mode & 0o077 for path in [out, *out.rglob("*")]} == {0}


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('wandb_api_key = "abc"', "wandb_api_key = [hidden]"),
        ("login(token='abc', project='mine')", "login(token=[hidden], project='mine')"),
        ('os.environ["HF_TOKEN"] = "abc"', 'os.environ["HF_TOKEN"] = [hidden]'),
        ('{"password": "a b", "name": "c"}', '{"password": [hidden], "name": "c"}'),
        ('password: str = "x"', "password: str = [hidden]"),
        ('connect("https://me:secret@host/x")', f'connect("https://me:{HIDDEN}@host/x")'),
        ("tokens = tokenizer(text)", "tokens = tokenizer(text)"),
        ('max_tokens = "12"', 'max_tokens = "12"'),
        ("key='x'", "key='x'"),
    ],
)
def test_secret_texts_in_source_are_hidden(line: str, kept: str) -> None:
    assert redacted_code(line) == kept
