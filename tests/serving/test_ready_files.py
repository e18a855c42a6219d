"""The files of `pipelines/serving/` parse as the server's messages and agree with each other."""

import re
from pathlib import Path

import pytest
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from dtmt_tf.config import ExportConfig
from dtmt_tf.export.model_card import SERVED_AS, SERVER_IMAGE, SERVER_OPTIONS
from dtmt_tf.tasks import TASKS

FOLDER = Path(__file__).resolve().parents[2] / "pipelines" / "serving"
COMPOSE = (FOLDER / "compose.yaml").read_text(encoding="utf-8")

# session_bundle_config.proto and monitoring_config.proto, which the stubs lack.
MESSAGES = """
name: "tests/ready_files.proto" package: "ready" syntax: "proto3"
dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "BatchingParameters"
  field { name: "max_batch_size" number: 1 type_name: ".google.protobuf.Int64Value" }
  field { name: "batch_timeout_micros" number: 2 type_name: ".google.protobuf.Int64Value" }
  field { name: "max_enqueued_batches" number: 3 type_name: ".google.protobuf.Int64Value" }
  field { name: "num_batch_threads" number: 4 type_name: ".google.protobuf.Int64Value" }
  field { name: "thread_pool_name" number: 5 type_name: ".google.protobuf.StringValue" }
  field { name: "allowed_batch_sizes" number: 6 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "pad_variable_length_inputs" number: 7 type: TYPE_BOOL }
}
message_type {
  name: "PrometheusConfig"
  field { name: "enable" number: 1 type: TYPE_BOOL }
  field { name: "path" number: 2 type: TYPE_STRING }
}
message_type {
  name: "MonitoringConfig"
  field { name: "prometheus_config" number: 1 type_name: ".ready.PrometheusConfig" }
}
"""


def read(file, message):
    return text_format.Parse((FOLDER / file).read_text(encoding="utf-8"), message)


@pytest.fixture(scope="module")
def message_class():
    """Returns the class of one of `MESSAGES` by its name."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(text_format.Parse(MESSAGES, descriptor_pb2.FileDescriptorProto()))
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ready.{name}"))


def flag(name):
    """Returns the value of one of the server's flags in `compose.yaml`."""
    return re.search(rf"^      - --{name}=(\S+)", COMPOSE, re.MULTILINE)[1]


def volumes():
    """Returns what `compose.yaml` mounts: {path in the container: path here}."""
    rows = re.findall(r"^      - (\.[^:]*):(/[^:]*):ro$", COMPOSE, re.MULTILINE)
    return {inside: FOLDER / outside for outside, inside in rows}


def test_batches_grow_to_the_largest(message_class):
    parameters = read("batching_parameters.txt", message_class("BatchingParameters")())
    sizes = list(parameters.allowed_batch_sizes)
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 1  # a sentence alone is not copied
    assert sizes[-1] == parameters.max_batch_size.value
    assert 0 < parameters.batch_timeout_micros.value <= 10_000  # short beside a translation
    assert parameters.num_batch_threads.value >= 1
    assert parameters.max_enqueued_batches.value >= 1
    assert not parameters.pad_variable_length_inputs
    limits = ExportConfig()
    assert sizes[-1] <= limits.max_lines
    for task in TASKS.values():  # a batch of the longest lines that are read whole is translated
        longest = task.data.max_length + task.decoding.extra_length
        assert sizes[-1] * longest <= limits.max_tokens, task.name


def test_metrics_are_for_prometheus(message_class):
    config = read("monitoring.config", message_class("MonitoringConfig")()).prometheus_config
    assert config.enable
    assert config.path == "/monitoring/prometheus/metrics"  # where scrapers look by custom


def test_models_lie_below_what_is_mounted():
    (config,) = read("models.config", ModelServerConfig()).model_config_list.config
    assert (config.name, config.model_platform) == (SERVED_AS, "tensorflow")
    root = next(inside for inside in volumes() if config.base_path.startswith(f"{inside}/"))
    assert volumes()[root].resolve() == FOLDER.parents[1] / "saved_models"
    task, name = config.base_path.removeprefix(f"{root}/").split("/")
    assert name == TASKS[task].model  # the folder of train.py without --name


def test_what_compose_mounts_and_names_is_there():
    mounted = volumes()
    assert len(mounted) == COMPOSE.count(":ro\n")
    for path in mounted.values():
        assert path.exists(), path
    for name in ("model_config_file", "batching_parameters_file", "monitoring_config_file"):
        assert mounted[flag(name)].parent == FOLDER
    assert "- --enable_batching\n" in COMPOSE  # a server refuses the file without it
    assert f"image: {SERVER_IMAGE}\n" in COMPOSE
    assert f"- {SERVER_OPTIONS} " in COMPOSE


@pytest.mark.parametrize("document", ["README.md", "SERVING.md"])
def test_documents_start_the_server_as_models_say(document):
    text = (FOLDER.parents[1] / document).read_text(encoding="utf-8")
    commands = re.findall(r"^docker run .*?tensorflow/serving.*?$", text, re.M | re.S)
    assert commands
    assert all(each.endswith(f" {SERVER_IMAGE} {SERVER_OPTIONS}") for each in commands)


def test_only_this_machine_reaches_what_compose_starts():
    ports = re.findall(r'^      - "([\d.:]+)"$', COMPOSE, re.MULTILINE)
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_has_limits_and_no_new_privileges():
    services = yaml.safe_load(COMPOSE)["services"]
    assert len(services) == 2
    for service in services.values():
        limits = service["deploy"]["resources"]["limits"]
        assert limits.keys() == {"cpus", "memory", "pids"}
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.keys() & {"privileged", "cap_add", "network_mode"}


@pytest.mark.parametrize(
    "file", ["README.md", "SERVING.md", "SCALE.md", "dtmt_tf/export/model_card.md"]
)
def test_no_command_in_a_document_opens_a_port_to_others(file):
    path = FOLDER.parents[1] / file
    text = path.read_text(encoding="utf-8")
    for mapping in re.findall(r"(?<!\S)(?:-p|--publish)[ =](\S+:\d+)", text):
        assert mapping.startswith("127.0.0.1:"), mapping
    for command in re.findall(r"-m http\.server[^`]*", text):
        assert re.search(r"\s(-b|--bind)\s+127\.0\.0\.1\s", command), command


def test_the_page_finds_server_and_model():
    page = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "page").glob("*.js"))
    assert f'|| "{SERVED_AS}"' in page
    assert f":{flag('rest_api_port')}`" in page
    assert flag("rest_api_enable_cors_support") == "true"
    assert {f"127.0.0.1:{port}:{port}" for port in (flag("port"), flag("rest_api_port"))} <= set(
        re.findall(r'- "([\d.:]+)"', COMPOSE)
    )


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.iterdir() if path.is_file()))
def test_every_file_says_what_it_is_for(file):
    assert (FOLDER / file).read_text(encoding="utf-8").startswith("# ")
