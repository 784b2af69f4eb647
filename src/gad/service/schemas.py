"""What is asked and what is answered, as JSON. A number that is not finite is null."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def _encodable(text: str) -> str:
    """Half a surrogate pair can be written in JSON, but it is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("this is no text: it has half a character in it") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]

_ANSWER: dict[str, Any] = {
    "model": "esol",
    "targets": [{"name": "logS", "kind": "regression", "unit": "log mol/L", "classes": []}],
    "predictions": [
        {
            "smiles": "CCO",
            "values": {"logS": 0.9},
            "lower": {"logS": 0.1},
            "upper": {"logS": 1.7},
            "domain": "inside",
            "similarity": 0.42,
            "error": None,
        },
        {
            "smiles": "CC(C",
            "values": {"logS": None},
            "error": "SMILES Parse Error: extra open parentheses while parsing: CC(C "
            "(check for mistakes around position 3)",
        },
    ],
}


class Asked(BaseModel):
    """A request: of exactly these fields, with exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PredictRequest(Asked):
    """Molecules to predict."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"smiles": [ASPIRIN, "CCO"], "uncertainty": True},
                {"smiles": ["c1ccccc1O"], "model": "esol", "explain": True, "neighbours": 3},
            ]
        }
    )
    smiles: list[Text] = Field(description="The molecules.")
    model: str | None = Field(None, description="A name of GET /v1/models; the first if left out.")
    uncertainty: bool = Field(True, description="Add the interval, spread and domain.")
    explain: bool = Field(False, description="Add the share of every atom.")
    neighbours: int = Field(
        0, ge=0, le=20, description="Add so many of the nearest training molecules."
    )
    features: list[list[FiniteFloat]] | None = Field(
        None, description="A row for each molecule, if the model was trained with own columns."
    )


class FileQuery(BaseModel):
    """How a table is to be predicted."""

    model_config = ConfigDict(extra="forbid")
    model: str | None = Field(None, description="A name of GET /v1/models; the first if left out.")
    uncertainty: bool = Field(False, description="Add intervals and domain.")
    smiles: str | None = Field(None, description="The column of the molecules.")
    format: Literal["csv", "parquet"] | None = Field(
        None, description="Of the answer: that of the table if left out."
    )


class Neighbour(BaseModel):
    """A training molecule and how near it is."""

    smiles: str
    similarity: float
    values: dict[str, float | str | None]


class Explanation(BaseModel):
    """What each atom adds: prediction = baseline + Σ atoms + Σ bonds + whole.

    One column a target, one a class for three classes or more; for classes in logits.
    """

    prediction: list[float]
    baseline: list[float]
    atoms: list[list[float]]
    bonds: list[list[float]] | None
    whole: list[float]


class Row(BaseModel):
    """One molecule: its values, or the reason why there are none."""

    smiles: str
    values: dict[str, float | str | None] = Field(
        description="Target → value, probability of 1, or the likeliest class."
    )
    probabilities: dict[str, dict[str, float | None]] | None = None
    std: dict[str, float | None] | None = None
    lower: dict[str, float | None] | None = None
    upper: dict[str, float | None] | None = None
    domain: str | None = Field(None, description="inside, edge or outside of what was learned.")
    similarity: float | None = Field(None, description="To the nearest training molecule.")
    sets: dict[str, list[str]] | None = Field(
        None, description="Target → the classes that cannot be ruled out."
    )
    neighbours: list[Neighbour] | None = None
    explanation: Explanation | None = None
    warning: str | None = None
    error: str | None = Field(None, description="Why this molecule cannot be predicted.")


class TargetInfo(BaseModel):
    """What is predicted."""

    name: str
    kind: str
    unit: str
    classes: list[str]


class PredictAnswer(BaseModel):
    """The molecules in the order in which they came."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ANSWER]})
    model: str
    targets: list[TargetInfo]
    predictions: list[Row]


class ModelCard(BaseModel):
    """A model: its name, what it predicts, and all its file says of itself."""

    name: str
    targets: list[TargetInfo]
    features: list[str]
    card: dict[str, Any]


class ModelsAnswer(BaseModel):
    """All models; the first is the one that is meant where none is named."""

    models: list[ModelCard]


class DrawRequest(Asked):
    """Molecules to draw."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"smiles": [ASPIRIN], "geometry": True}]}
    )
    smiles: list[Text] = Field(max_length=64)
    width: int = Field(420, ge=40, le=1200)
    height: int = Field(320, ge=40, le=1200)
    geometry: bool = Field(False, description="Add the eigenbasis and the directional field.")


class Geometry(BaseModel):
    """The operators of a molecule with N atoms, E directed bonds j → i and K eigenpairs.

    Arrays are little-endian float32 in base64, row by row.
    """

    eigenvalues: str = Field(description="λ [K]")
    eigenvectors: str = Field(description="Φ [N, K]")
    mass: str = Field(description="M [N]")
    source: list[int] = Field(description="j [E]")
    target: list[int] = Field(description="i [E]")
    weight: str = Field(description="‖F̂_ij‖ [E], of B_av")
    field: str = Field(description="F̂_ij [E, m], of B_dx; m directions")
    directions: int = Field(description="m: more than 1 where φ₁ is degenerate")


class Drawing(BaseModel):
    """A molecule on the page, or the reason why it cannot be drawn."""

    smiles: str
    error: str | None = None
    svg: str | None = None
    places: list[tuple[float, float]] | None = None
    symbols: list[str] | None = None
    bonds: list[tuple[int, int]] | None = None
    geometry: Geometry | None = None


class DrawAnswer(BaseModel):
    """The drawings in the order in which the molecules came."""

    drawings: list[Drawing]


class Problem(BaseModel):
    """Why a request is not answered."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "smiles: is missing"}]})
    error: str
